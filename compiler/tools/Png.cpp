//===- tools/Png.cpp - Drawings as PNG ------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Png.h"
#include "compiler/tools/Font.h"
#include <algorithm>
#include <png.h>
#include <stdexcept>

namespace attn {
namespace {

constexpr int kDot = 2; ///< pixels of a dot of a letter, each way
constexpr int kDotsAbove = 7;
static_assert(kLetterWidth == 6 * kDot && kLetterHeight == kDotsAbove * kDot);

/// Three bytes a pixel, row by row.
class Canvas {
public:
  Canvas(int width, int height, Color background)
      : width(width), height(height), bytes(size_t(width) * height * 3) {
    fill({0, 0, width, height, background});
  }

  /// What lies outside is left out.
  void fill(const Drawing::Box &box) {
    const int right = std::min(box.x + box.width, width);
    const int bottom = std::min(box.y + box.height, height);
    for (int y = std::max(box.y, 0); y < bottom; ++y)
      for (int x = std::max(box.x, 0); x < right; ++x) {
        uint8_t *pixel = &bytes[(size_t(y) * width + x) * 3];
        pixel[0] = box.color.red;
        pixel[1] = box.color.green;
        pixel[2] = box.color.blue;
      }
  }

  void write(const Drawing::Words &words, Color ink);
  const uint8_t *data() const { return bytes.data(); }

private:
  int width, height;
  std::vector<uint8_t> bytes;
};

void Canvas::write(const Drawing::Words &words, Color ink) {
  const int length = int(words.text.size()) * kLetterWidth - kDot;
  int along = words.anchor == Drawing::Anchor::Start    ? 0
              : words.anchor == Drawing::Anchor::Middle ? -length / 2
                                                        : -length;
  for (char c : words.text) {
    const uint8_t *letter = kFont[c >= ' ' && c <= '~' ? c - ' ' : '?' - ' '];
    for (int column = 0; column < 5; ++column)
      for (int dot = 0; dot < 8; ++dot) {
        if (!(letter[column] >> dot & 1))
          continue;
        const int x = along + column * kDot, y = (dot - kDotsAbove) * kDot;
        const int thick = words.bold ? kDot + 1 : kDot;
        if (words.upwards)
          fill({words.x + y, words.y - x - thick, kDot, thick, ink});
        else
          fill({words.x + x, words.y + y, thick, kDot, ink});
      }
    along += kLetterWidth;
  }
}

} // namespace

std::string toPng(const Drawing &drawing) {
  Canvas canvas(drawing.width, drawing.height, drawing.background);
  for (const Drawing::Box &box : drawing.boxes)
    canvas.fill(box);
  for (const Drawing::Words &words : drawing.words)
    canvas.write(words, drawing.ink);

  png_image image = {};
  image.version = PNG_IMAGE_VERSION;
  image.width = png_uint_32(drawing.width);
  image.height = png_uint_32(drawing.height);
  image.format = PNG_FORMAT_RGB;
  // The first call says how much room the file needs.
  png_alloc_size_t size = 0;
  std::string file;
  for (int pass = 0; pass < 2; ++pass) {
    file.resize(size);
    if (!png_image_write_to_memory(&image, pass ? file.data() : nullptr, &size,
                                   /*convert_to_8_bit=*/0, canvas.data(),
                                   /*row_stride=*/0, /*colormap=*/nullptr))
      throw std::runtime_error(std::string("PNG: ") + image.message);
  }
  file.resize(size);
  return file;
}

} // namespace attn
