//===- tools/Drawing.h - A picture of rectangles and words ----------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#ifndef ATTNC_COMPILER_TOOLS_DRAWING_H
#define ATTNC_COMPILER_TOOLS_DRAWING_H

#include <cstdint>
#include <string>
#include <vector>

namespace attn {

struct Color {
  uint8_t red, green, blue;
  friend bool operator==(Color a, Color b) {
    return a.red == b.red && a.green == b.green && a.blue == b.blue;
  }
};

/// All sizes are in pixels, from the top left corner. Later shapes hide
/// earlier ones; words are above all rectangles.
struct Drawing {
  struct Box {
    int x, y, width, height;
    Color color;
  };
  enum class Anchor : uint8_t { Start, Middle, End };
  struct Words {
    int x, y; ///< where the anchor is, on the line the letters stand on
    std::string text;
    Anchor anchor = Anchor::Start;
    bool bold = false;
    bool upwards = false; ///< turned to read from bottom to top
  };

  int width = 0, height = 0;
  std::string title; ///< for who can't see the picture
  Color background{255, 255, 255}, ink{0, 0, 0};
  std::vector<Box> boxes;
  std::vector<Words> words;
};

/// Letters take at most this much, in every format.
inline constexpr int kLetterWidth = 12, kLetterHeight = 14;

} // namespace attn

#endif
