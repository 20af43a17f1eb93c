//===- tools/Svg.cpp - Drawings as SVG ------------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/tools/Svg.h"
#include <fmt/format.h>
#include <iterator>

namespace attn {
namespace {

std::string hex(Color c) {
  return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue);
}

/// Text for XML. Control characters, which XML has no way to write, and bytes
/// that are not ASCII become question marks.
std::string escape(const std::string &text) {
  std::string result;
  for (char c : text)
    switch (c) {
    case '&':
      result += "&amp;";
      break;
    case '<':
      result += "&lt;";
      break;
    case '>':
      result += "&gt;";
      break;
    default:
      result += c >= ' ' && c <= '~' ? c : '?';
    }
  return result;
}

const char *anchorName(Drawing::Anchor anchor) {
  switch (anchor) {
  case Drawing::Anchor::Start:
    return "start";
  case Drawing::Anchor::Middle:
    return "middle";
  case Drawing::Anchor::End:
    return "end";
  }
  return "";
}

} // namespace

std::string toSvg(const Drawing &drawing) {
  std::string svg;
  auto out = std::back_inserter(svg);
  fmt::format_to(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
                 "height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n<title>{2}</title>\n"
                 "<rect width=\"{0}\" height=\"{1}\" fill=\"{3}\"/>\n"
                 "<g shape-rendering=\"crispEdges\">\n",
                 drawing.width, drawing.height, escape(drawing.title),
                 hex(drawing.background));
  // Neighbours of one colour are one path, each box relative to the one before.
  for (size_t i = 0; i < drawing.boxes.size();) {
    const Color color = drawing.boxes[i].color;
    fmt::format_to(out, "<path fill=\"{}\" d=\"", hex(color));
    int x = 0, y = 0;
    for (; i < drawing.boxes.size() && drawing.boxes[i].color == color; ++i) {
      const Drawing::Box &box = drawing.boxes[i];
      fmt::format_to(out, "m{} {}h{}v{}h{}z", box.x - x, box.y - y, box.width,
                     box.height, -box.width);
      x = box.x, y = box.y;
    }
    svg += "\"/>\n";
  }
  fmt::format_to(out,
                 "</g>\n<g font-family=\"Helvetica,Arial,sans-serif\" "
                 "font-size=\"16\" fill=\"{}\">\n",
                 hex(drawing.ink));
  for (const Drawing::Words &words : drawing.words) {
    fmt::format_to(out, "<text x=\"{}\" y=\"{}\"", words.x, words.y);
    if (words.anchor != Drawing::Anchor::Start)
      fmt::format_to(out, " text-anchor=\"{}\"", anchorName(words.anchor));
    if (words.bold)
      svg += " font-weight=\"bold\"";
    if (words.upwards)
      fmt::format_to(out, " transform=\"rotate(-90 {} {})\"", words.x, words.y);
    fmt::format_to(out, ">{}</text>\n", escape(words.text));
  }
  svg += "</g>\n</svg>\n";
  return svg;
}

} // namespace attn
