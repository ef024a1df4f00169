// Reports the name of a mapped file that is shortened while it is in use.
//
// A page past the end of its file cannot be read: the kernel sends SIGBUS, which by default
// ends the process without naming the file. With this handler, the process prints
// "[rank r] fatal: FILE: shortened while in use; byte N is gone" and ends with status 1.
#pragma once

#include <cstddef>
#include <string>

namespace dist {

void watch_mapping(const void* begin, std::size_t size, const std::string& path);
void forget_mapping(const void* begin);

}  // namespace dist
