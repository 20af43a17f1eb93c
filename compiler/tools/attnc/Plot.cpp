//===- tools/attnc/Plot.cpp - attnc plot ----------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "compiler/Plot.h"
#include "compiler/tools/Files.h"
#include "compiler/tools/Png.h"
#include "compiler/tools/Svg.h"
#include "compiler/tools/attnc/Command.h"
#include "compiler/tools/attnc/Input.h"
#include "compiler/tools/attnc/Params.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <iterator>
#include <memory>

namespace attn {
namespace {

constexpr int64_t kMostTokens = 32768;

struct Options : TextOptions {
  std::string target = "host";
  std::string plan;
  std::string out;
  int64_t qLen = 4096;
  int64_t kvLen = -1; ///< -1: as many as queries
  int64_t head = 0;
  ParamOptions params;
};

// Blue and orange stay apart for every kind of eye and in grey.
constexpr Color kSkipped{233, 236, 239}, kFull{66, 114, 183},
    kPartial{255, 232, 194}, kInk{33, 37, 41}, kPaper{255, 255, 255},
    kEdge{73, 80, 87};
/// Pairs drawn together, by how many of them are allowed, in quarters.
constexpr Color kAllowed[] = {
    {252, 208, 145}, {249, 184, 97}, {245, 161, 49}, {242, 137, 0}};

constexpr int kLongest = 768; ///< pixels of the longer side, about
constexpr int kShortest = 48; ///< pixels of a side at least
constexpr int kWidestCell = 24;
constexpr int kGridFrom = 6; ///< pixels of what gets lines around it
constexpr int kMargin = 24, kLine = 26, kLeft = 116, kTick = 6;

/// Tokens along one side of the picture.
class Axis {
public:
  Axis(int64_t count, int64_t longest) : count(count) {
    if (longest <= kLongest) {
      const int64_t cell = (kLongest + longest / 2) / longest;
      pixels = std::min<int64_t>(kWidestCell, cell) * count;
    } else {
      pixels = kLongest * count / longest;
    }
    pixels = std::max<int64_t>(pixels, kShortest);
  }

  int at(int64_t token) const {
    return int((token * pixels + count / 2) / count);
  }
  int size() const { return int(pixels); }
  /// Whether `tokens` of them are wide enough for lines in between.
  bool hasLines(int64_t tokens) const {
    return tokens * pixels >= kGridFrom * count;
  }
  /// Tokens that are drawn as one: one, or what makes two pixels.
  int64_t step() const {
    return pixels >= count ? 1 : (2 * count + pixels - 1) / pixels;
  }
  /// Tokens from label to label: a power of two that leaves room.
  int64_t labelStep(int room) const {
    int64_t step = 1;
    while (step * pixels < room * count)
      step *= 2;
    return step;
  }

  const int64_t count;

private:
  int64_t pixels;
};

class Plot {
public:
  Plot(const TileMap &map, const Spec &spec, const Options &options,
       const std::string &target, int64_t kvLen)
      : map(map), spec(spec), options(options), target(target),
        keys(kvLen, std::max(options.qLen, kvLen)),
        queries(options.qLen, std::max(options.qLen, kvLen)) {}

  Drawing draw();

private:
  Drawing::Box box(Span q, Span k, Color color) const {
    const int x = keys.at(k.lo), y = queries.at(q.lo);
    return {left + x, top + y, keys.at(k.hi) - x, queries.at(q.hi) - y, color};
  }
  void words(int x, int y, std::string text,
             Drawing::Anchor anchor = Drawing::Anchor::Start, bool bold = false,
             bool upwards = false) {
    drawing.words.push_back({x, y, std::move(text), anchor, bold, upwards});
  }
  void pairs(const TileMap::Row &row);
  void lines();
  void labels();
  void header();
  std::string shortened(const std::string &text) const;

  const TileMap &map;
  const Spec &spec;
  const Options &options;
  const std::string &target;
  const Axis keys, queries;
  Drawing drawing;
  std::array<std::vector<Drawing::Box>, std::size(kAllowed)> shades;
  int left = kLeft, top = 0;
  int64_t allowedPairs = 0;
};

/// The allowed pairs of an item: counts all, draws those in partial tiles.
void Plot::pairs(const TileMap::Row &row) {
  const int64_t kStep = keys.step(), qStep = queries.step();
  // counts[t][c]: allowed pairs of column c of partial tile t.
  std::vector<std::vector<int64_t>> counts(row.tiles.size());
  for (int64_t q = row.queries.lo; q < row.queries.hi;) {
    const Span band{q, std::min(q + qStep, row.queries.hi)};
    for (size_t t = 0; t < row.tiles.size(); ++t) {
      const TileMap::Tile &tile = row.tiles[t];
      if (!tile.full)
        counts[t].assign(
            size_t((tile.keys.hi - tile.keys.lo + kStep - 1) / kStep), 0);
    }
    for (; q < band.hi; ++q) {
      if ((q - row.queries.lo) % row.step != 0)
        continue;
      size_t first = 0;
      map.forEachAllowed(q, [&](Span run) {
        allowedPairs += run.hi - run.lo;
        while (first < row.tiles.size() && row.tiles[first].keys.hi <= run.lo)
          ++first;
        for (size_t t = first;
             t < row.tiles.size() && row.tiles[t].keys.lo < run.hi; ++t) {
          const TileMap::Tile &tile = row.tiles[t];
          const int64_t end = std::min(run.hi, tile.keys.hi);
          for (int64_t k = std::max(run.lo, tile.keys.lo);
               !tile.full && k < end;) {
            const int64_t column = (k - tile.keys.lo) / kStep;
            const int64_t next =
                std::min(end, tile.keys.lo + (column + 1) * kStep);
            counts[t][size_t(column)] += next - k;
            k = next;
          }
        }
      });
    }
    for (size_t t = 0; t < row.tiles.size(); ++t) {
      const Span &span = row.tiles[t].keys;
      auto shade = [&](size_t column) -> int64_t {
        const int64_t lo = span.lo + int64_t(column) * kStep;
        const int64_t area =
            (std::min(lo + kStep, span.hi) - lo) * (band.hi - band.lo);
        return (4 * counts[t][column] + area - 1) / area;
      };
      for (size_t c = 0; c < counts[t].size();) {
        const size_t begin = c;
        const int64_t value = shade(c);
        while (c < counts[t].size() && shade(c) == value)
          ++c;
        if (value)
          shades[size_t(value - 1)].push_back(
              box(band,
                  {span.lo + int64_t(begin) * kStep,
                   std::min(span.lo + int64_t(c) * kStep, span.hi)},
                  kAllowed[value - 1]));
      }
    }
  }
}

/// Between pairs where they are large, then between tiles.
void Plot::lines() {
  auto across = [&](int64_t query, Color color) {
    drawing.boxes.push_back(
        {left, top + queries.at(query), keys.size(), 1, color});
  };
  auto down = [&](int64_t key, Color color) {
    drawing.boxes.push_back(
        {left + keys.at(key), top, 1, queries.size(), color});
  };
  const bool arePairs = keys.hasLines(1) && queries.hasLines(1);
  if (arePairs) {
    for (int64_t q = 1; q < queries.count; ++q)
      across(q, kPaper);
    for (int64_t k = 1; k < keys.count; ++k)
      down(k, kPaper);
  }
  const Color color = arePairs ? kEdge : kPaper;
  if (queries.hasLines(std::max<int64_t>(1, map.rowsOfTile / map.headsOfTile)))
    for (const TileMap::Row &row : map.rows)
      if (row.queries.lo > 0)
        across(row.queries.lo, color);
  if (keys.hasLines(map.keysOfTile))
    for (int64_t k = map.keysOfTile; k < keys.count; k += map.keysOfTile)
      down(k, color);
  // A frame around all.
  const int w = keys.size(), h = queries.size();
  for (Drawing::Box edge : {Drawing::Box{-1, -1, w + 2, 1, kEdge},
                            {-1, h, w + 2, 1, kEdge},
                            {-1, -1, 1, h + 2, kEdge},
                            {w, -1, 1, h + 2, kEdge}}) {
    edge.x += left, edge.y += top;
    drawing.boxes.push_back(edge);
  }
}

void Plot::labels() {
  // A large pair is named at its middle.
  auto middle = [](const Axis &axis, int64_t token) {
    return axis.hasLines(1) ? (axis.at(token) + axis.at(token + 1)) / 2
                            : axis.at(token);
  };
  const int64_t keyStep = keys.labelStep(8 * kLetterWidth);
  for (int64_t k = 0; k < keys.count; k += keyStep) {
    const int x = left + middle(keys, k);
    drawing.boxes.push_back({x, top - 1 - kTick, 1, kTick, kEdge});
    words(x, top - kTick - 6, std::to_string(k), Drawing::Anchor::Middle);
  }
  words(left + keys.size() / 2, top - kTick - 6 - kLine, "position of the key",
        Drawing::Anchor::Middle);
  const int64_t queryStep = queries.labelStep(3 * kLetterHeight);
  const int64_t first = map.firstPosition;
  // The first multiple of the step.
  int64_t q = (queryStep - first % queryStep) % queryStep;
  for (; q < queries.count; q += queryStep) {
    const int y = top + middle(queries, q);
    drawing.boxes.push_back({left - 1 - kTick, y, kTick, 1, kEdge});
    words(left - kTick - 6, y + kLetterHeight / 2, std::to_string(q + first),
          Drawing::Anchor::End);
  }
  const std::string title = "position of the query";
  const int length = int(title.size()) * kLetterWidth;
  if (queries.size() >= length) {
    words(kMargin + kLetterHeight / 2, top + queries.size() / 2, title,
          Drawing::Anchor::Middle, /*bold=*/false, /*upwards=*/true);
  } else {
    words(left, top + queries.size() + kLine, "down: " + title);
    drawing.height += kLine;
  }
}

std::string Plot::shortened(const std::string &text) const {
  const size_t most = size_t((drawing.width - 2 * kMargin) / kLetterWidth);
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

/// What is drawn, in words and numbers, and the colours.
void Plot::header() {
  int y = kMargin + kLetterHeight;
  auto line = [&](const std::string &text, bool bold = false) {
    words(kMargin, y, shortened(text), Drawing::Anchor::Start, bold);
    y += kLine;
  };
  line(fmt::format("{}, head {} of {}", spec.name, options.head, spec.heads),
       /*bold=*/true);
  line(spec.mask ? "mask = " + print(spec.mask) : "no mask");
  line(fmt::format("{} queries x {} keys, {}, tiles {} x {}{}", queries.count,
                   keys.count, target, map.rowsOfTile, map.keysOfTile,
                   map.headsOfTile > 1
                       ? fmt::format(", {} heads each", map.headsOfTile)
                       : ""));
  line(
      allowedPairs
          ? fmt::format("{} pairs visited for {} allowed ({:.3f})",
                        map.visitedPairs, allowedPairs,
                        double(map.visitedPairs) / double(allowedPairs))
          : fmt::format("{} pairs visited, none is allowed", map.visitedPairs));
  struct Entry {
    Color color;
    std::string text;
  };
  const Entry entries[] = {
      {kFull, fmt::format("full tiles, no mask ({})", map.fullTiles)},
      {kPartial, fmt::format("partial tiles, masked ({})", map.partialTiles)},
      {kSkipped, fmt::format("skipped tiles ({})", map.skippedTiles)},
      {kAllowed[3], "allowed pairs in partial tiles"}};
  int column = 0;
  for (const Entry &entry : entries) {
    const int x = kMargin + column * (drawing.width - 2 * kMargin) / 2;
    for (auto [grow, color] : {std::pair(1, kEdge), std::pair(0, entry.color)})
      drawing.boxes.push_back({x + 1 - grow, y - kLetterHeight + 1 - grow,
                               kLetterHeight + 2 * grow,
                               kLetterHeight + 2 * grow, color});
    words(x + kLetterHeight + 10, y, entry.text);
    y += column ? kLine : 0;
    column ^= 1;
  }
}

Drawing Plot::draw() {
  drawing.title = fmt::format("{}, head {}: {} queries x {} keys", spec.name,
                              options.head, queries.count, keys.count);
  drawing.ink = kInk;
  drawing.background = kPaper;
  drawing.width = left + std::max(keys.size(), kLongest) + kMargin;
  // Six lines of words and the names of the keys.
  top = kMargin + 6 * kLine + 2 * kLine + kTick + 14;
  drawing.height = top + queries.size() + kMargin;
  drawing.boxes.push_back({left, top, keys.size(), queries.size(), kSkipped});
  for (bool full : {false, true})
    for (const TileMap::Row &row : map.rows)
      for (const TileMap::Tile &tile : row.tiles)
        if (tile.full == full)
          drawing.boxes.push_back(
              box(row.queries, tile.keys, full ? kFull : kPartial));
  for (const TileMap::Row &row : map.rows)
    pairs(row);
  // They don't overlap: one colour after the other makes small files.
  for (const std::vector<Drawing::Box> &shade : shades)
    drawing.boxes.insert(drawing.boxes.end(), shade.begin(), shade.end());
  lines();
  labels();
  header();
  return std::move(drawing);
}

int plotVariant(const Options &options) {
  const bool isSvg = options.out.size() > 4 &&
                     options.out.substr(options.out.size() - 4) == ".svg";
  const bool isPng = options.out.size() > 4 &&
                     options.out.substr(options.out.size() - 4) == ".png";
  if (!isSvg && !isPng)
    throw Failure(fmt::format("-o '{}': the name says the format; allowed: "
                              "NAME.svg, NAME.png",
                              options.out));
  const Text text = options.read();
  const Spec &spec = text.spec();
  if (options.head >= spec.heads)
    throw Failure(fmt::format("--head {}: '{}' has {} heads; allowed: 0 to {}",
                              options.head, spec.name, spec.heads,
                              spec.heads - 1));
  std::vector<Diagnostic> diagnostics;
  const std::string target = resolveTarget(options.target, diagnostics);
  text.require(diagnostics);
  const int64_t kvLen = options.kvLen < 0 ? options.qLen : options.kvLen;
  ParamValues params(spec, options.params, /*allRequired=*/false);
  params.makeRandom(/*batch=*/1, options.qLen, kvLen);
  const attn_call values = params.valuesOfSequence(options.qLen, kvLen);
  const TileMap map = makeTileMap(spec, {target, options.plan}, options.qLen,
                                  kvLen, options.head, &values);
  text.require(map.diagnostics);
  const Drawing drawing = Plot(map, spec, options, target, kvLen).draw();
  writeFile(options.out, isSvg ? toSvg(drawing) : toPng(drawing));
  return 0;
}

} // namespace

Action addPlot(CLI::App &command) {
  auto options = std::make_shared<Options>();
  options->add(command);
  options->params.canBeRandom = true;
  options->params.add(command);
  command.add_option("-o", options->out, "OUT.svg or OUT.png")->required();
  command.add_option("--head", options->head, "which query head; default 0")
      ->check(CLI::Range(int64_t(0), int64_t(INT32_MAX)));
  command.add_option("--target", options->target);
  command.add_option("--plan", options->plan,
                     "KEY=VALUE,...: overrides the planner");
  command.add_option("--q-len", options->qLen)
      ->check(CLI::Range(int64_t(1), kMostTokens));
  command.add_option("--kv-len", options->kvLen, "default: as --q-len")
      ->check(CLI::Range(int64_t(1), kMostTokens));
  return [options] { return plotVariant(*options); };
}

} // namespace attn
