// Does the compiler keep the rules of floating-point arithmetic that the course counts on? It
// is compiled, linked and run with the flags of our files (ExactMath.cmake). Prints what is
// wrong, and returns how many rules are broken.
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <limits>

// The compiler cannot know these numbers, nor what the functions below get.
volatile float one = 1, zero = 0, big = 1e30F, divisor = 49;
volatile float smallest = std::numeric_limits<float>::min();
constexpr int kCount = 64;

[[gnu::noinline]] static float sum(const float* x) {
  float total = 0;
  for (int i = 0; i < kCount; ++i) total += x[i];
  return total;
}
[[gnu::noinline]] static float sum_less_first(float a, float b) {
  return a + b - a;
}
[[gnu::noinline]] static void divide(float* x, float by) {
  for (int i = 0; i < kCount; i += 4) {
    x[i] /= by, x[i + 1] /= by, x[i + 2] /= by, x[i + 3] /= by;
  }
}
[[gnu::noinline]] static void root(float* x) {
  for (int i = 0; i < kCount; ++i) x[i] = std::sqrt(x[i]);
}
[[gnu::noinline]] static bool is_nan(float x) {
  return std::isnan(x);
}
[[gnu::noinline]] static bool is_finite(float x) {
  return std::isfinite(x);
}

#ifdef __CUDACC__
// In the code that nvcc makes of this, instructions that round in another way have names with
// "approx", "full" or "ftz".
__global__ void of_gpu(float* x) {
  x[0] = x[1] / x[2] + std::sqrt(x[3]) * x[4];
}
#endif

int main() {
  int broken = 0;
  const auto rule = [&broken](bool kept, const char* otherwise) {
    if (!kept) std::printf("%s%s", broken++ == 0 ? "" : ", ", otherwise);
  };
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  rule(false, "takes every number for finite");
#else
  rule(is_nan(zero / zero) && !is_finite(one / zero), "takes every number for finite");
#endif
  float x[kCount], quotients[kCount], roots[kCount];
  volatile float expected = 0;  // each step is rounded
  for (int i = 0; i < kCount; ++i) {
    x[i] = quotients[i] = roots[i] =
        one + big * static_cast<float>(i % 3 - 1) + static_cast<float>(i);
    expected = expected + x[i];
  }
  rule(sum(x) == expected && sum_less_first(big, one) == 0, "changes the order of sums");
  for (int i = 0; i < kCount; ++i) quotients[i] = roots[i] = static_cast<float>(i) + one;
  divide(quotients, divisor);
  root(roots);
  bool exact = true;
  for (int i = 0; i < kCount; ++i) {
    const volatile float dividend = static_cast<float>(i) + one;
    const volatile float quotient = dividend / divisor;
    // A correctly rounded root: the squares of its neighbours lie on both sides of the number.
    const double r = roots[i],
                 step = 0.5 * static_cast<double>(std::nextafter(roots[i], 100.0F) - roots[i]);
    const bool near =
        (r - step) * (r - step) <= dividend && (r + step) * (r + step) >= dividend;
    exact = exact && quotients[i] == quotient && near;
  }
  rule(exact, "approximates quotients or roots");
  const volatile float half = smallest / 2;
  const volatile float doubled = half * 2;
  rule(half > 0 && doubled == smallest, "replaces the smallest numbers by zero");
  rule(FLT_EVAL_METHOD == 0, "computes with other precisions");
  return broken;
}
