// What happens when a mapped file gets shorter while it is in use.
//
// A page that lies past the end of its file cannot be read; the kernel says so by SIGBUS, whose
// default is to end the process without a word. From the first mapping on, such a process says
// which file it was: "[rank r] fatal: FILE: shortened while in use, byte N is gone", status 1.
#pragma once

#include <cstddef>
#include <string>

namespace dist {

void watch_mapping(const void* begin, std::size_t size, const std::string& path);
void forget_mapping(const void* begin);

}  // namespace dist
