// A glyph is a few control points. To draw a sample, the code moves these points, bends a curve
// along them, inks the pixels near the curve and adds noise. This file is compiled with
// -ffp-contract=off and uses only operations that IEEE 754 rounds correctly (+ - * / sqrt). The
// bytes are therefore the same on every machine, and a test compares their hash.
// Look at kGlyphs, then at draw_digit.
#include "04_distributed_sampler/datasets/digits_dataset.hpp"

#include "common/random.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

namespace dist {
namespace {

constexpr std::size_t kSide = 28;  // pixels
constexpr std::size_t kClasses = 10;

// Each word is a control point "xy" on a grid of 0..9 by 0..9, y downwards; "--" lifts the pen.
// The points attract the curve. It passes through its two end points and through any repeated
// point, where it has a corner.
constexpr std::array<std::string_view, kClasses> kGlyphs = {
    "50 10 19 89 80 50",              // 0
    "33 50 50 59",                    // 1
    "13 10 80 84 19 19 89",           // 2
    "11 20 80 84 44 44 84 89 29 18",  // 3
    "40 15 15 85 -- 63 69",           // 4
    "80 20 20 14 14 83 89 29 18",     // 5
    "70 20 19 89 84 24 17",           // 6
    "10 80 80 39",                    // 7
    "50 10 14 85 89 19 15 84 80 50",  // 8
    "82 80 10 15 75 81 81 69",        // 9
};

// How much samples may vary: enough that a small network needs more than one epoch, but little
// enough that a person can read every sample.
constexpr float kJitter = 0.6F;           // in grid units, for each control point
constexpr float kGridToPixels = 2.1F;     // makes digits about 19 pixels high, like MNIST's
constexpr float kStretch = 0.2F;          // applied to width and height independently
constexpr float kShear = 0.3F;            // sideways pixels per pixel of height
constexpr float kTanHalfAngle = 0.1317F;  // a rotation by up to 15 degrees in either direction
constexpr float kShift = 2.5F;            // pixels
constexpr float kThinnest = 0.7F;         // half the width of the pen, in pixels
constexpr float kThickest = 1.5F;
constexpr float kNoise = 40.0F;  // at most this many of 255 grey levels up or down

struct Point {
  float x, y;
};

Point midpoint(Point a, Point b) {
  return {(a.x + b.x) * 0.5F, (a.y + b.y) * 0.5F};
}

float uniform(float low, float high, Generator& generator) {
  float value = 0;
  fill_uniform({&value, 1}, low, high, generator);
  return value;
}

// How a sample differs from its glyph. The members are drawn in this order.
struct Pose {
  float width, height, shear, tangent, shift_x, shift_y;
};

Pose random_pose(Generator& generator) {
  // The expressions between braces are evaluated from left to right.
  return {kGridToPixels * uniform(1 - kStretch, 1 + kStretch, generator),
          kGridToPixels * uniform(1 - kStretch, 1 + kStretch, generator),
          uniform(-kShear, kShear, generator),
          uniform(-kTanHalfAngle, kTanHalfAngle, generator),
          uniform(-kShift, kShift, generator),
          uniform(-kShift, kShift, generator)};
}

// From grid to pixel coordinates.
Point place(const Pose& pose, Point grid) {
  constexpr float kGridCenter = 4.5F;
  constexpr float kImageCenter = (kSide - 1) * 0.5F;
  const float y = (grid.y - kGridCenter) * pose.height;
  const float x = (grid.x - kGridCenter) * pose.width - pose.shear * y;
  // From the tangent of half the angle, because libm's results differ between machines.
  const float norm = 1 + pose.tangent * pose.tangent;
  const float cosine = (1 - pose.tangent * pose.tangent) / norm;
  const float sine = 2 * pose.tangent / norm;
  return {cosine * x - sine * y + pose.shift_x + kImageCenter,
          sine * x + cosine * y + pose.shift_y + kImageCenter};
}

// For each pixel, the squared distance from the pixel's centre to the nearest line drawn so
// far. Storing distances instead of ink avoids blots where two lines meet.
using Distances = std::array<float, kSide * kSide>;

// Returns the share of a pixel that a pen of half-width `pen` covers. The share falls from 1 to
// 0 within one pixel around the pen's edge.
float ink(float squared_distance, float pen) {
  const float edge = pen + 0.5F;
  const float covered = std::min(edge - std::sqrt(squared_distance), 1.0F);
  return squared_distance >= edge * edge ? 0.0F : covered;
}

void add_segment(Point a, Point b, Distances& distances) {
  // A pixel that is farther away stays black with any pen (see ink()).
  constexpr float kReach = kThickest + 0.5F;
  const auto pixel = [](float coordinate) {
    return static_cast<std::size_t>(std::clamp(coordinate, 0.0F, kSide - 1.0F));
  };
  const float dx = b.x - a.x, dy = b.y - a.y;
  constexpr float kTiny = 1e-12F;  // avoids a division by zero for a segment of length 0
  const float inverse = 1 / std::max(dx * dx + dy * dy, kTiny);
  const std::size_t right = pixel(std::max(a.x, b.x) + kReach);
  const std::size_t bottom = pixel(std::max(a.y, b.y) + kReach);
  for (std::size_t row = pixel(std::min(a.y, b.y) - kReach); row <= bottom; ++row) {
    for (std::size_t column = pixel(std::min(a.x, b.x) - kReach); column <= right; ++column) {
      const float x = static_cast<float>(column) - a.x;
      const float y = static_cast<float>(row) - a.y;
      const float along = std::clamp((x * dx + y * dy) * inverse, 0.0F, 1.0F);
      const float off_x = x - along * dx, off_y = y - along * dy;
      float& nearest = distances[row * kSide + column];
      nearest = std::min(nearest, off_x * off_x + off_y * off_y);
    }
  }
}

// One stroke is the quadratic B-spline of its control points. Point i bends one piece, which
// runs from the midpoint between the point and its left neighbour to the midpoint between the
// point and its right neighbour:
//
//   p0 ----- m01 ..p1.. m12 ..p2.. m23 ----- p3      (each end is its own neighbour)
//
// Neighbouring pieces share a midpoint and their direction there, so the stroke has no kink.
void add_stroke(std::span<const Point> points, Distances& distances) {
  constexpr int kSegments = 4;  // per piece; within a quarter of a pixel of the true curve
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point control = points[i];
    const Point begin = midpoint(i == 0 ? control : points[i - 1], control);
    const Point end = midpoint(control, i + 1 == points.size() ? control : points[i + 1]);
    Point from = begin;
    for (int s = 1; s <= kSegments; ++s) {
      const float t = static_cast<float>(s) / kSegments;
      const float u = 1 - t;
      const Point to{u * u * begin.x + 2 * u * t * control.x + t * t * end.x,
                     u * u * begin.y + 2 * u * t * control.y + t * t * end.y};
      add_segment(from, to, distances);
      from = to;
    }
  }
}

// [7] Drawing a digit.
void draw_digit(std::size_t digit, std::span<std::uint8_t> image, Generator& generator) {
  const Pose pose = random_pose(generator);
  const float pen = uniform(kThinnest, kThickest, generator);
  Distances distances;
  distances.fill(kSide * kSide);  // far away
  std::vector<Point> stroke;
  constexpr std::size_t kWord = 3;  // two characters and a space
  for (std::string_view rest = kGlyphs[digit];; rest.remove_prefix(kWord)) {
    if (rest.starts_with("--")) {
      add_stroke(stroke, distances);
      stroke.clear();
      continue;
    }
    const float dx = uniform(-kJitter, kJitter, generator);
    const float dy = uniform(-kJitter, kJitter, generator);
    stroke.push_back(place(pose, {static_cast<float>(rest[0] - '0') + dx,
                                  static_cast<float>(rest[1] - '0') + dy}));
    if (rest.size() < kWord) break;
  }
  add_stroke(stroke, distances);

  constexpr float kWhite = 255.0F;
  constexpr float kMeanByte = 127.5F;
  // One random number provides the noise of four pixels, one byte per pixel. Drawing one number
  // per pixel would take longer than everything else.
  std::array<std::uint8_t, kSide * kSide> noises;
  for (std::size_t pixel = 0; pixel < noises.size(); pixel += 4) {
    const std::uint32_t bits = generator.next_u32();
    for (std::size_t i = 0; i < 4; ++i) {
      noises[pixel + i] = static_cast<std::uint8_t>(bits >> 8 * i);
    }
  }
  std::array<std::uint8_t, kSide * kSide> greys;
  for (std::size_t pixel = 0; pixel < noises.size(); ++pixel) {  // no branch, so it vectorizes
    const float noise = (static_cast<float>(noises[pixel]) - kMeanByte) * (kNoise / kMeanByte);
    const float grey = kWhite * ink(distances[pixel], pen) + noise;
    greys[pixel] = static_cast<std::uint8_t>(std::min(std::max(grey, 0.0F), kWhite) + 0.5F);
  }
  std::ranges::copy(greys, image.begin());
}

}  // namespace

IdxDataset digits_dataset(std::size_t count, std::uint64_t seed) {
  constexpr std::size_t kPixels = kSide * kSide;
  Generator generator(seed);
  std::vector<std::uint8_t> pixels(count * kPixels);
  std::vector<std::uint8_t> labels(count);
  const std::vector<std::size_t> order = randperm(count, generator);
  for (std::size_t i = 0; i < count; ++i) {
    // `order` contains each of 0 .. count - 1 once, so the remainders of its elements give each
    // class the same number of samples, to within one.
    const std::size_t digit = order[i] % kClasses;
    labels[i] = static_cast<std::uint8_t>(digit);
    draw_digit(digit, std::span(pixels).subspan(i * kPixels, kPixels), generator);
  }
  return {kPixels, std::move(pixels), std::move(labels)};
}

}  // namespace dist
