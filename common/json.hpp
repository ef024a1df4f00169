// A JSON value, used for output rows, metrics lines and file headers.
//
// Write it as `Json{{"bytes", 64}, {"time_us", 1.5}}`. A list in which every element is a pair
// that begins with a string is an object; every other list is an array. An object keeps the
// order of its members. Only json.cpp includes the library that reads and writes the text,
// because that library takes longer to compile than most programs of this course.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dist {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;

  Json(std::nullptr_t = nullptr) {}
  template <std::same_as<bool> T>
  Json(T value) : value_(value) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Json(T value) : value_(std::uint64_t{value}) {}
  template <std::signed_integral T>
  Json(T value) : value_(std::int64_t{value}) {}
  template <std::floating_point T>
  Json(T value) : value_(double{value}) {}
  Json(std::string text) : value_(std::move(text)) {}
  Json(std::string_view text) : value_(std::string(text)) {}
  Json(const char* text) : value_(std::string(text)) {}
  Json(Array values) : value_(std::move(values)) {}
  Json(Object members) : value_(std::move(members)) {}
  Json(std::initializer_list<Json> list);
  template <std::ranges::input_range Range>
  requires(!std::convertible_to<const Range&, std::string_view>) Json(const Range& values)
      : value_(Array(values.begin(), values.end())) {}

  static Json array() { return Array(); }
  static Json object() { return Object(); }

  void push_back(Json value) { std::get<Array>(value_).push_back(std::move(value)); }
  // Returns the member with this name, after adding it if it does not exist.
  Json& operator[](const std::string& name);

  // Each of these returns null or nullopt if the value is of a different kind.
  const std::string* text() const { return std::get_if<std::string>(&value_); }
  const Array* elements() const { return std::get_if<Array>(&value_); }
  const Object* members() const { return std::get_if<Object>(&value_); }
  const Json* find(std::string_view name) const;  // the member with this name
  std::optional<double> number() const;
  std::optional<std::uint64_t> whole_number() const;  // without sign, point or exponent

  // On one line, or with `indent` spaces per level. Non-finite numbers become null.
  std::string dump(int indent = -1) const;
  // Returns nullopt if `text` is not JSON, nests too deeply, or names a member of one object
  // twice; `problem` then says why, in words that complete a sentence after "it ".
  static std::optional<Json> parse(std::string_view text, std::string* problem = nullptr);

 private:
  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Array,
               Object>
      value_;

  friend class JsonText;
};

}  // namespace dist
