// Files that a program writes: refused before hours of work, and never seen half written.
#pragma once

#include <string>

namespace dist {

// Throws Error("flag: why") if `path` cannot be written. Creates nothing.
void require_writable(const std::string& flag, const std::string& path);

// Writes a neighbour of `path` and renames it: whoever looks sees the old file or the whole new
// one. Throws Error naming the file.
void write_file_at_once(const std::string& path, const std::string& content);

}  // namespace dist
