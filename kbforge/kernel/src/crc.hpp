// The CRC-32 of a text, as zlib's, which a store's counts are kept by.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kbforge {

inline std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t k = 0; k < 256; ++k) {
    std::uint32_t value = k;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
    table[k] = value;
  }
  return table;
}

inline std::uint32_t crc32(std::string_view text) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t value = 0xFFFFFFFFu;
  for (const char c : text) value = (value >> 8) ^ table[(value ^ static_cast<std::uint8_t>(c)) & 255];
  return ~value;
}

}  // namespace kbforge
