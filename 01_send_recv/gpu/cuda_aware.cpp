#include "01_send_recv/gpu/cuda_aware.hpp"

#include "common/build_config.hpp"

#include <mpi.h>

#include <dlfcn.h>

namespace dist {

bool mpi_variable(const char* name, bool otherwise) {
  int level = 0, provided = 0, index = 0, count = 0, value = otherwise ? 1 : 0;
  MPI_Query_thread(&level);  // Open MPI takes the new level for the program's own
  if (MPI_T_init_thread(level, &provided) != MPI_SUCCESS) return otherwise;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS) {
    MPI_T_cvar_read(handle, &value);
    MPI_T_cvar_handle_free(&handle);
  }
  MPI_T_finalize();
  return value != 0;
}

bool is_cuda_aware(bool says_so, bool ucx, bool ucx_has_cuda) {
  return !DIST_CUDA_EMULATED && says_so && mpi_variable("opal_cuda_support", true) &&
         (!ucx || ucx_has_cuda);
}

bool mpi_is_cuda_aware() {
  static const bool is_aware = [] {
    const auto query =
        reinterpret_cast<int (*)()>(::dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support"));
    const auto is_loaded = [](const char* library) {
      return ::dlopen(library, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
    };
    return is_cuda_aware(query != nullptr && query() == 1, is_loaded("libucp.so.0"),
                         is_loaded("libuct_cuda.so.0"));
  }();
  return is_aware;
}

}  // namespace dist
