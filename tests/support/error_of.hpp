// The text of the error that a call throws.
#pragma once

#include "common/check.hpp"

#include <string>

namespace dist::test {

// The text of the Error that `action` throws, or "nothing thrown". Other exceptions fail the
// test.
template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace dist::test
