// Includes Catch2, version 2 (Debian 12) or version 3 (Debian 13, Ubuntu 24.04).
#pragma once

#if DIST_CATCH2_VERSION >= 3
#include <catch2/catch_test_macros.hpp>
#else
#include <catch2/catch.hpp>
#endif
