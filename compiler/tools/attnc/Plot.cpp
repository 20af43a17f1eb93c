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
#include <map>
#include <memory>
#include <tuple>
#include <utility>

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
constexpr Color kSkipped{233, 236, 239}, kPartial{255, 232, 194},
    kInk{33, 37, 41}, kPaper{255, 255, 255}, kEdge{73, 80, 87};
/// Pairs drawn together, by how many of them are of that kind, in quarters.
constexpr std::array<Color, 4> kFull = {
    {{182, 201, 228}, {143, 172, 213}, {105, 143, 198}, {66, 114, 183}}};
constexpr std::array<Color, 4> kAllowed = {
    {{252, 208, 145}, {249, 184, 97}, {245, 161, 49}, {242, 137, 0}}};

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

/// Pairs that are drawn as one: how many of them are what.
struct Cell {
  int64_t full = 0, allowed = 0; ///< in full tiles; allowed in partial ones
  bool isMasked = false;         ///< some are in partial tiles
  /// Some are of a listed query or key, which a share would not show.
  bool isLine = false;

  Color color(int64_t area) const {
    if (!full && !allowed)
      return isMasked ? kPartial : kSkipped;
    const auto &shades = full >= allowed ? kFull : kAllowed;
    if (isLine)
      return shades.back();
    const int64_t quarters = (4 * std::max(full, allowed) + area / 2) / area;
    return shades[size_t(std::max<int64_t>(quarters, 1) - 1)];
  }
};

class Plot {
public:
  Plot(const TileMap &map, const Spec &spec, const Options &options,
       const std::string &target, int64_t kvLen)
      : map(map), spec(spec), options(options), target(target),
        keys(kvLen, std::max(options.qLen, kvLen)),
        queries(options.qLen, std::max(options.qLen, kvLen)) {
    for (const TileMap::Row &row : map.rows)
      if (row.step > 1)
        step = row.step;
  }

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
  void draw(std::vector<Drawing::Box> boxes);
  void pairs();
  void add(const TileMap::Row &row, int64_t query, std::vector<Cell> &cells);
  void lines();
  void labels();
  void header();
  std::string shortened(const std::string &text) const;

  const TileMap &map;
  const Spec &spec;
  const Options &options;
  const std::string &target;
  const Axis keys, queries;
  const bool arePairs = keys.hasLines(1) && queries.hasLines(1);
  Drawing drawing;
  std::vector<Drawing::Box> below, onTop; ///< pairs; those of listed tokens
  int left = kLeft, top = 0;
  int64_t step = 1; ///< of the dilation of the head
  int64_t allowedPairs = 0;
};

/// The pairs of a query, to the cells of its band.
void Plot::add(const TileMap::Row &row, int64_t query,
               std::vector<Cell> &cells) {
  const int64_t width = keys.step();
  std::vector<Span> allowed;
  map.forEachAllowed(query, [&](Span run) {
    allowedPairs += run.hi - run.lo;
    allowed.push_back(run);
  });
  auto count = [&](Span span, int64_t Cell::*kind, bool isLine) {
    for (int64_t k = span.lo; k < span.hi;) {
      const int64_t next = std::min(span.hi, (k / width + 1) * width);
      Cell &cell = cells[size_t(k / width)];
      if (kind)
        cell.*kind += next - k;
      else
        cell.isMasked = true;
      cell.isLine |= isLine;
      k = next;
    }
  };
  for (const TileMap::Tile &tile : row.tiles) {
    const bool isLine = !row.listed.empty() || !tile.gathered.empty();
    auto visit = [&](Span keys) {
      if (tile.full)
        return count(keys, &Cell::full, isLine);
      count(keys, nullptr, false);
      auto run = std::partition_point(allowed.begin(), allowed.end(),
                                      [&](Span r) { return r.hi <= keys.lo; });
      for (; run != allowed.end() && run->lo < keys.hi; ++run)
        count({std::max(run->lo, keys.lo), std::min(run->hi, keys.hi)},
              &Cell::allowed, isLine);
    };
    if (!tile.gathered.empty())
      std::for_each(tile.gathered.begin(), tile.gathered.end(), visit);
    else if (row.step == 1)
      visit(tile.keys);
    else
      for (int64_t k = tile.keys.lo; k < tile.keys.hi; k += row.step)
        visit({k, k + 1});
  }
}

/// What the kernel does with each pair, cell by cell.
void Plot::pairs() {
  // The item of each query.
  std::vector<const TileMap::Row *> items(size_t(queries.count));
  for (const bool isListed : {false, true})
    for (const TileMap::Row &row : map.rows) {
      if (row.listed.empty() == isListed)
        continue;
      for (int64_t query : row.listed)
        items[size_t(query)] = &row;
      for (int64_t q = row.queries.lo; !isListed && q < row.queries.hi;
           q += row.step)
        items[size_t(q)] = &row;
    }
  // Boxes that reach the last band, by key: the next may make them taller.
  struct Place {
    std::vector<Drawing::Box> *boxes;
    size_t number;
  };
  std::map<int64_t, Place> open;
  const int64_t width = keys.step(), height = queries.step();
  for (int64_t q = 0; q < queries.count; q += height) {
    const Span band{q, std::min(q + height, queries.count)};
    std::vector<Cell> cells(size_t((keys.count + width - 1) / width));
    for (int64_t query = band.lo; query < band.hi; ++query)
      if (items[size_t(query)])
        add(*items[size_t(query)], query, cells);
    auto color = [&](size_t c) {
      const int64_t lo = int64_t(c) * width;
      const int64_t area =
          (std::min(lo + width, keys.count) - lo) * (band.hi - band.lo);
      return cells[c].color(area);
    };
    std::map<int64_t, Place> still;
    for (size_t c = 0; c < cells.size();) {
      const size_t begin = c;
      const Color value = color(c);
      const bool isLine = cells[c].isLine;
      while (c < cells.size() && cells[c].isLine == isLine && color(c) == value)
        ++c;
      if (value == kSkipped)
        continue;
      std::vector<Drawing::Box> &boxes = isLine ? onTop : below;
      const Drawing::Box next = box(
          band,
          {int64_t(begin) * width, std::min(int64_t(c) * width, keys.count)},
          value);
      auto above = open.find(next.x);
      if (above != open.end() && above->second.boxes == &boxes) {
        Drawing::Box &old = boxes[above->second.number];
        if (old.width == next.width && old.color == value) {
          old.height = next.y + next.height - old.y;
          still.insert(*above);
          continue;
        }
      }
      still[next.x] = {&boxes, boxes.size()};
      boxes.push_back(next);
    }
    open = std::move(still);
  }
}

/// Boxes that don't overlap: one colour after the other makes small files.
void Plot::draw(std::vector<Drawing::Box> boxes) {
  auto order = [](const Drawing::Box &box) {
    const Color c = box.color;
    return std::tuple(c.red << 16 | c.green << 8 | c.blue, box.y, box.x);
  };
  std::sort(boxes.begin(), boxes.end(),
            [&](const Drawing::Box &a, const Drawing::Box &b) {
              return order(a) < order(b);
            });
  drawing.boxes.insert(drawing.boxes.end(), boxes.begin(), boxes.end());
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
  if (arePairs) {
    for (int64_t q = 1; q < queries.count; ++q)
      across(q, kPaper);
    for (int64_t k = 1; k < keys.count; ++k)
      down(k, kPaper);
  }
  const Color color = arePairs ? kEdge : kPaper;
  // Tiles of a dilated head overlap: those of the first class stand for all.
  if (queries.hasLines(
          std::max<int64_t>(1, map.rowsOfTile / map.headsOfTile * step)))
    for (const TileMap::Row &row : map.rows)
      if (row.listed.empty() && row.queries.lo > 0 &&
          row.queries.lo % step == 0)
        across(row.queries.lo, color);
  const int64_t width = map.keysOfTile * step;
  if (keys.hasLines(width))
    for (int64_t k = width; k < keys.count; k += width)
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
  const std::string visited = fmt::format("{} pairs visited", map.visitedPairs);
  if (map.openPairs)
    line(fmt::format("{} for {} allowed and {} open", visited,
                     allowedPairs - map.openPairs, map.openPairs));
  else if (allowedPairs)
    line(fmt::format("{} for {} allowed ({:.3f})", visited, allowedPairs,
                     double(map.visitedPairs) / double(allowedPairs)));
  else
    line(visited + ", none is allowed");
  struct Entry {
    Color color;
    std::string text;
  };
  const Entry entries[] = {
      {kFull.back(), fmt::format("full tiles, no mask ({})", map.fullTiles)},
      {kPartial, fmt::format("partial tiles, masked ({})", map.partialTiles)},
      {kSkipped, fmt::format("skipped tiles ({})", map.skippedTiles)},
      {kAllowed.back(), map.openPairs ? "allowed or open pairs in these"
                                      : "allowed pairs in partial tiles"}};
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
  pairs();
  draw(std::move(below));
  // Lines between pairs are above all of them, those between tiles are not.
  if (arePairs)
    draw(std::move(onTop));
  lines();
  if (!arePairs)
    draw(std::move(onTop));
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
