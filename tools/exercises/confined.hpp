// What a reader's function must not do: end the program, start another process, which could
// outlive the program, or compute for longer than --timeout. Both judges (tools/exercises/ and
// tools/exercises/mine/) use this file, because a job that ends with status 0 proves nothing.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace dist {

// While it exists, calls escape("called exit()"), for example, when this thread is about to end
// the program or to fork; escape() should end the job. If the program crashes, nothing can be
// called any more, but `name` is printed.
class Confined {
 public:
  Confined(const char* name, std::function<void(const std::string& what)> escape);
  ~Confined();
  Confined(Confined&&) = delete;

  const char* name() const { return name_; }
  void escape(const std::string& what) const { escape_(what); }

 private:
  const char* name_;
  std::function<void(const std::string&)> escape_;
  const Confined* outer_;
};

// Makes a crash print the name. Called after MPI_Init, which has a handler of its own.
void name_crashes();

// From now on, this process can allocate `bytes` more.
void limit_memory(std::size_t bytes);

}  // namespace dist
