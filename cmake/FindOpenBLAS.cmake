# Finds OpenBLAS by its own header: other BLAS libraries have a cblas.h, too. Defines
# OpenBLAS_FOUND, OpenBLAS_INCLUDE_DIR, OpenBLAS_LIBRARY and OpenBLAS_VERSION.
find_path(OpenBLAS_INCLUDE_DIR openblas_config.h PATH_SUFFIXES openblas)
find_library(OpenBLAS_LIBRARY openblas)
if(OpenBLAS_INCLUDE_DIR)
  file(STRINGS ${OpenBLAS_INCLUDE_DIR}/openblas_config.h _openblas_version
    REGEX "^#define OPENBLAS_VERSION ")
  string(REGEX MATCH "[0-9]+[.][0-9]+[.][0-9]+" OpenBLAS_VERSION "${_openblas_version}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(OpenBLAS
  REQUIRED_VARS OpenBLAS_LIBRARY OpenBLAS_INCLUDE_DIR VERSION_VAR OpenBLAS_VERSION)
mark_as_advanced(OpenBLAS_INCLUDE_DIR OpenBLAS_LIBRARY)
