#include "common/json.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <unordered_set>

namespace dist {

Json::Json(std::initializer_list<Json> list) {
  const bool named = std::ranges::all_of(list, [](const Json& element) {
    const Array* pair = element.elements();
    return pair != nullptr && pair->size() == 2 && pair->front().text() != nullptr;
  });
  if (!named) {
    value_ = Array(list);
    return;
  }
  Object members;
  for (const Json& element : list) {
    members.emplace_back(*element.elements()->front().text(), element.elements()->back());
  }
  value_ = std::move(members);
}

Json& Json::operator[](const std::string& name) {
  if (std::holds_alternative<std::nullptr_t>(value_)) value_ = Object();
  Object& members = std::get<Object>(value_);
  const auto found = std::ranges::find(members, name, &Object::value_type::first);
  return found != members.end() ? found->second : members.emplace_back(name, Json()).second;
}

const Json* Json::find(std::string_view name) const {
  const Object* all = members();
  if (all == nullptr) return nullptr;
  const auto found = std::ranges::find(*all, name, &Object::value_type::first);
  return found == all->end() ? nullptr : &found->second;
}

std::optional<double> Json::number() const {
  if (const auto* real = std::get_if<double>(&value_)) return *real;
  if (const auto* negative = std::get_if<std::int64_t>(&value_)) return *negative;
  if (const auto* whole = std::get_if<std::uint64_t>(&value_)) return *whole;
  return std::nullopt;
}

std::optional<std::uint64_t> Json::whole_number() const {
  const auto* whole = std::get_if<std::uint64_t>(&value_);
  return whole == nullptr ? std::nullopt : std::optional(*whole);
}

// Converts to the library's values, and builds a Json from the events of the library's parser.
class JsonText : public nlohmann::json_sax<nlohmann::ordered_json> {
 public:
  static nlohmann::ordered_json of(const Json& json) {
    return std::visit(
        []<class T>(const T& value) -> nlohmann::ordered_json {
          if constexpr (std::same_as<T, Json::Array>) {
            auto values = nlohmann::ordered_json::array();
            for (const Json& element : value) values.push_back(of(element));
            return values;
          } else if constexpr (std::same_as<T, Json::Object>) {
            auto members = nlohmann::ordered_json::object();
            for (const auto& [name, member] : value) members[name] = of(member);
            return members;
          } else {
            return value;
          }
        },
        json.value_);
  }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(std::int64_t value) override { return add(value); }
  bool number_unsigned(std::uint64_t value) override { return add(value); }
  bool number_float(double value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(value); }
  bool binary(nlohmann::ordered_json::binary_t&) override { return false; }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool key(std::string& name) override {
    if (!taken_.back().insert(name).second) return fail("has " + name + " twice");
    names_.push_back(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    return fail(std::string("is not JSON: ") + error.what());
  }

  Json outermost;
  std::string problem;

 private:
  bool add(Json next) {
    if (open_.empty()) {
      outermost = std::move(next);
    } else if (open_.back().elements() != nullptr) {
      open_.back().push_back(std::move(next));
    } else {
      std::get<Json::Object>(open_.back().value_)
          .emplace_back(std::move(names_.back()), std::move(next));
      names_.pop_back();
    }
    return true;
  }
  bool open(Json container) {
    constexpr std::size_t kDeepest = 100;
    if (open_.size() == kDeepest) return fail("nests too deeply");
    open_.push_back(std::move(container));
    taken_.emplace_back();
    return true;
  }
  bool close() {
    Json closed = std::move(open_.back());
    open_.pop_back();
    taken_.pop_back();
    return add(std::move(closed));
  }
  bool fail(std::string what) {
    problem = std::move(what);
    return false;
  }

  std::vector<Json> open_;  // arrays and objects that are still open
  std::vector<std::unordered_set<std::string>> taken_;  // the names of their members so far
  std::vector<std::string> names_;                      // names of members awaiting values
};

std::string Json::dump(int indent) const {
  // A file name need not be valid UTF-8, but JSON must be.
  return JsonText::of(*this).dump(indent, ' ', false,
                                  nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<Json> Json::parse(std::string_view text, std::string* problem) {
  JsonText reader;
  if (nlohmann::ordered_json::sax_parse(text, &reader)) return std::move(reader.outermost);
  if (problem != nullptr) *problem = reader.problem;
  return std::nullopt;
}

}  // namespace dist
