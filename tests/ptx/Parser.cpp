//===- tests/ptx/Parser.cpp - Reading PTX ---------------------------------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Lexer.h"
#include "Numbers.h"
#include "Syntax.h"
#include <cstring>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Bits of a type's name, 1 for a predicate; 0 where it names none.
unsigned typeBits(std::string_view type) {
  if (type == ".pred")
    return 1;
  static const std::map<std::string_view, unsigned> Bits = {
      {".b8", 8},   {".u8", 8},   {".s8", 8},     {".b16", 16},    {".u16", 16},
      {".s16", 16}, {".f16", 16}, {".bf16", 16},  {".b32", 32},    {".u32", 32},
      {".s32", 32}, {".f32", 32}, {".f16x2", 32}, {".bf16x2", 32}, {".b64", 64},
      {".u64", 64}, {".s64", 64}, {".f64", 64}};
  auto found = Bits.find(type);
  return found == Bits.end() ? 0 : found->second;
}

class Parser {
public:
  Parser(std::string_view text, const std::string &name) : lexer(text, name) {}

  ModuleText module() {
    while (lexer.peek().kind != Token::Kind::End)
      topLevel();
    if (result.target.empty())
      lexer.fail(lexer.peek().line, "the module has no .target");
    return std::move(result);
  }

private:
  [[noreturn]] void unknown(const Token &token) {
    lexer.fail(token.line, fmt::format("not known here: '{}'", token.text));
  }

  void topLevel() {
    Token token = lexer.take();
    if (token.kind != Token::Kind::Word)
      unknown(token);
    if (token.text == ".version") {
      if (lexer.take().kind != Token::Kind::Double)
        lexer.fail(token.line, ".version needs a number such as 7.0");
    } else if (token.text == ".target") {
      result.target = lexer.expectWord("a target such as sm_80");
      if (!startsWith(result.target, "sm_"))
        lexer.fail(token.line,
                   fmt::format("no such target: '{}'", result.target));
      while (lexer.takeMark(','))
        if (std::string more = lexer.expectWord("a target option");
            more != "debug")
          lexer.fail(token.line, fmt::format("target option '{}'", more));
    } else if (token.text == ".address_size") {
      if (lexer.expectInteger("an address size") != 64)
        lexer.fail(token.line, "addresses have 64 bits");
    } else if (token.text == ".file") {
      skipDebug();
    } else if (token.text == ".visible" || token.text == ".weak" ||
               token.text == ".extern") {
      bool dynamic = token.text == ".extern";
      Token next = lexer.take();
      if (next.text == ".entry" && !dynamic)
        kernel(next.line);
      else
        moduleVariable(next, dynamic);
    } else if (token.text == ".entry") {
      kernel(token.line);
    } else {
      moduleVariable(token, false);
    }
  }

  void moduleVariable(const Token &token, bool isExtern) {
    static const std::map<std::string_view, Space> Spaces = {
        {".global", Space::Global},
        {".const", Space::Const},
        {".shared", Space::Shared}};
    auto space = Spaces.find(token.text);
    if (space == Spaces.end())
      unknown(token);
    Variable made = variable(space->second, token.line);
    if (isExtern && (made.space != Space::Shared || !made.dynamic))
      lexer.fail(token.line,
                 fmt::format("'{}' is defined in no module at hand; .extern is "
                             "for dynamic shared memory",
                             made.name));
    if (!isExtern && made.dynamic)
      lexer.fail(token.line, fmt::format("'{}' has no size", made.name));
    lexer.expectMark(';');
    result.variables.push_back(std::move(made));
  }

  /// The rest of `.file` or `.loc`: numbers, quoted text and commas.
  void skipDebug() {
    int line = lexer.peek().line;
    while (lexer.peek().line == line && lexer.peek().kind != Token::Kind::End)
      lexer.take();
  }

  /// What follows the state space: attributes, type, name, extents, values.
  Variable variable(Space space, int line) {
    Variable made;
    made.space = space;
    made.line = line;
    bool aligned = false, pointer = false;
    unsigned bits = 0;
    while (bits == 0) {
      std::string word = lexer.expectWord("a type");
      if (word == ".align") {
        int64_t align = lexer.expectInteger("an alignment");
        if (align <= 0 || align > 4096 || (align & (align - 1)) != 0)
          lexer.fail(
              line, fmt::format(".align {}: a power of two up to 4096", align));
        made.align = size_t(align);
        aligned = true;
        continue;
      }
      bits = typeBits(word);
      if (bits < 8)
        lexer.fail(line, fmt::format("not a type of memory: '{}'", word));
    }
    while (space == Space::Param && startsWith(lexer.peek().text, ".")) {
      // `.ptr .global .align n` says where a parameter points to.
      std::string word = lexer.take().text;
      if (word == ".ptr")
        pointer = true;
      else if (pointer && word == ".align")
        lexer.expectInteger("an alignment");
      else if (!pointer || (word != ".global" && word != ".const" &&
                            word != ".shared" && word != ".local"))
        lexer.fail(line, fmt::format("not known here: '{}'", word));
    }
    if (!aligned)
      made.align = bits / 8;
    made.name = lexer.expectWord("a name");
    uint64_t count = 1;
    while (lexer.takeMark('[')) {
      if (lexer.takeMark(']')) {
        made.dynamic = true;
        count = 0;
        break;
      }
      int64_t extent = lexer.expectInteger("an extent");
      if (extent <= 0 || extent > (int64_t(1) << 31))
        lexer.fail(line, fmt::format("extent {} of '{}'", extent, made.name));
      count *= uint64_t(extent);
      if (count > (uint64_t(1) << 31))
        lexer.fail(line, fmt::format("'{}' is larger than 2 GiB", made.name));
      lexer.expectMark(']');
    }
    made.bytes = count * (bits / 8);
    if (lexer.takeMark('='))
      initialise(made, bits / 8, count);
    return made;
  }

  void initialise(Variable &made, size_t width, uint64_t count) {
    if (made.space != Space::Global && made.space != Space::Const)
      lexer.fail(made.line,
                 fmt::format("'{}' may not have a value", made.name));
    made.initial.resize(made.bytes);
    bool list = lexer.takeMark('{');
    uint64_t index = 0;
    do {
      bool negative = lexer.takeMark('-');
      Token value = lexer.take();
      if (value.kind != Token::Kind::Integer &&
          value.kind != Token::Kind::Single &&
          value.kind != Token::Kind::Double)
        lexer.fail(value.line, fmt::format("not a number: '{}'", value.text));
      if (index == count)
        lexer.fail(value.line, fmt::format("more values than '{}' has elements",
                                           made.name));
      uint64_t bits = uint64_t(value.bits);
      if (negative)
        bits = 0 - bits;
      std::memcpy(made.initial.data() + index++ * width, &bits, width);
    } while (list && lexer.takeMark(','));
    if (list)
      lexer.expectMark('}');
  }

  std::vector<uint32_t> extents() {
    std::vector<uint32_t> found;
    do
      found.push_back(uint32_t(lexer.expectInteger("a count of threads")));
    while (lexer.takeMark(','));
    found.resize(3, 1);
    return found;
  }

  void kernel(int line) {
    KernelText made;
    made.line = line;
    made.name = lexer.expectWord("the kernel's name");
    if (lexer.takeMark('(') && !lexer.takeMark(')')) {
      do {
        if (!lexer.takeWord(".param"))
          unknown(lexer.peek());
        made.parameters.push_back(variable(Space::Param, lexer.peek().line));
      } while (lexer.takeMark(','));
      lexer.expectMark(')');
    }
    while (!lexer.takeMark('{')) {
      Token token = lexer.take();
      if (token.text == ".maxntid")
        made.maxThreads = extents();
      else if (token.text == ".reqntid")
        made.requiredThreads = extents();
      else if (token.text == ".minnctapersm" || token.text == ".maxnreg" ||
               token.text == ".maxnctapersm")
        lexer.expectInteger("a count"); // of interest to the assembler only
      else
        unknown(token);
    }
    current = &made;
    depth = 1;
    while (depth > 0)
      statement();
    result.kernels.push_back(std::move(made));
  }

  void add(int line, decltype(Statement::what) what) {
    current->body.push_back({line, std::move(what)});
  }

  void statement() {
    Token token = lexer.take();
    if (token.kind == Token::Kind::End)
      lexer.fail(token.line, "the kernel does not end");
    if (token.kind == Token::Kind::Implicit) {
      add(token.line, ImplicitText{token.text});
    } else if (token.kind == Token::Kind::Mark && token.text == "{") {
      depth++;
      add(token.line, OpenScope{});
    } else if (token.kind == Token::Kind::Mark && token.text == "}") {
      if (--depth > 0)
        add(token.line, CloseScope{});
    } else if (token.kind == Token::Kind::Mark && token.text == ";") {
      // An empty statement, as inline assembly may leave.
    } else if (token.kind == Token::Kind::Mark && token.text == "@") {
      InstructionText made;
      made.negated = lexer.takeMark('!');
      made.predicate = lexer.expectWord("a predicate");
      instruction(std::move(made), lexer.take());
    } else if (token.kind != Token::Kind::Word) {
      unknown(token);
    } else if (token.text[0] == '.') {
      directive(token);
    } else if (lexer.takeMark(':')) {
      if (lexer.takeWord(".branchtargets"))
        targets(token);
      else
        add(token.line, LabelText{token.text});
    } else {
      instruction({}, token);
    }
  }

  void targets(const Token &label) {
    TargetsText made{label.text, {}};
    do
      made.labels.push_back(lexer.expectWord("a label"));
    while (lexer.takeMark(','));
    lexer.expectMark(';');
    add(label.line, std::move(made));
  }

  void directive(const Token &token) {
    if (token.text == ".reg") {
      std::string type = lexer.expectWord("a type");
      unsigned bits = typeBits(type);
      if (bits == 0 || bits == 8)
        lexer.fail(token.line,
                   fmt::format("not a register's type: '{}'", type));
      do {
        RegisterText made{lexer.expectWord("a register"), 0, bits};
        if (lexer.takeMark('<')) {
          made.count = uint32_t(lexer.expectInteger("a count"));
          lexer.expectMark('>');
        }
        add(token.line, std::move(made));
      } while (lexer.takeMark(','));
      lexer.expectMark(';');
    } else if (token.text == ".shared" || token.text == ".local") {
      Space space = token.text == ".shared" ? Space::Shared : Space::Local;
      current->variables.push_back(variable(space, token.line));
      if (current->variables.back().dynamic)
        lexer.fail(token.line, "an array without a size");
      lexer.expectMark(';');
    } else if (token.text == ".pragma") {
      lexer.take();
      lexer.expectMark(';');
    } else if (token.text == ".loc") {
      skipDebug();
    } else {
      unknown(token);
    }
  }

  void instruction(InstructionText made, const Token &opcode) {
    if (opcode.kind != Token::Kind::Word)
      unknown(opcode);
    made.opcode = opcode.text;
    if (!lexer.takeMark(';')) {
      do
        made.operands.push_back(pair());
      while (lexer.takeMark(','));
      lexer.expectMark(';');
    }
    add(opcode.line, std::move(made));
  }

  OperandText pair() {
    OperandText first = operand();
    if (!lexer.takeMark('|'))
      return first;
    OperandText both;
    both.kind = OperandText::Kind::Pair;
    both.parts.push_back(std::move(first));
    both.parts.push_back(operand());
    return both;
  }

  OperandText operand() {
    OperandText made;
    if (lexer.takeMark('{')) {
      made.kind = OperandText::Kind::Vector;
      do
        made.parts.push_back(operand());
      while (lexer.takeMark(','));
      lexer.expectMark('}');
      return made;
    }
    if (lexer.takeMark('[')) {
      made.kind = OperandText::Kind::Address;
      made.parts.push_back(operand());
      // `[%rd1+8]` reads as a base with an offset already.
      made.bits = made.parts[0].bits;
      if (made.parts[0].kind == OperandText::Kind::Name)
        made.parts[0].bits = 0;
      else
        made.parts.clear();
      lexer.expectMark(']');
      return made;
    }
    made.negated = lexer.takeMark('!');
    bool minus = !made.negated && lexer.takeMark('-');
    Token token = lexer.take();
    switch (token.kind) {
    case Token::Kind::Integer:
      made.kind = OperandText::Kind::Integer;
      made.bits = minus ? int64_t(0 - uint64_t(token.bits)) : token.bits;
      return made;
    case Token::Kind::Single:
    case Token::Kind::Double: {
      bool single = token.kind == Token::Kind::Single;
      made.kind =
          single ? OperandText::Kind::Single : OperandText::Kind::Double;
      uint64_t sign = minus ? uint64_t(1) << (single ? 31 : 63) : 0;
      made.bits = int64_t(uint64_t(token.bits) ^ sign);
      return made;
    }
    case Token::Kind::Word:
      if (minus || token.text[0] == '.')
        unknown(token);
      made.name = token.text;
      if (made.name == "_")
        made.kind = OperandText::Kind::Sink;
      if (lexer.takeMark('+'))
        made.bits = lexer.expectInteger("an offset");
      else if (lexer.peek().kind == Token::Kind::Mark &&
               lexer.peek().text == "-")
        made.bits = lexer.expectInteger("an offset");
      return made;
    default:
      unknown(token);
    }
  }

  Lexer lexer;
  ModuleText result;
  KernelText *current = nullptr;
  int depth = 0;
};

} // namespace

ModuleText parseText(std::string_view text, const std::string &name) {
  return Parser(text, name).module();
}

} // namespace attn::ptx
