//===- tests/ptx/Module.cpp - From a text to kernels ready to run ---------===//
//
// Part of attnc. Apache-2.0.
//
//===----------------------------------------------------------------------===//
#include "Decoder.h"
#include <algorithm>
#include <fmt/format.h>

namespace attn::ptx {

namespace {

const Opcodes &allOpcodes() {
  static const Opcodes Known = [] {
    Opcodes made;
    addArithmetic(made);
    addBits(made);
    addFunctions(made);
    addConvert(made);
    addCompare(made);
    addMove(made);
    addMemory(made);
    addAsync(made);
    addWarpwide(made);
    addMatrix(made);
    addControl(made);
    return made;
  }();
  return Known;
}

/// Marks the lanes of a register whose content the code generator left open.
void leaveUndefined(Warp &, const Instruction &, Mask) {}

/// Turns the statements of one kernel into instructions.
class Builder {
public:
  Builder(Program &into, const ModuleText &moduleText, const KernelText &text)
      : program(into), module(moduleText), source(text) {}

  void build() {
    describe();
    Names names(kernel, module, source);
    findLabels();
    scope = 0;
    nextScope = 1;
    for (const Statement &statement : source.body)
      add(names, statement);
    finish(names);
    program.infos.push_back(kernel.info);
    program.kernels.push_back(std::move(kernel));
  }

private:
  /// Where a label or a list of targets is known.
  using ScopedName = std::pair<int, std::string>;

  [[noreturn]] void fail(int line, const std::string &message) const {
    throw Error(line, fmt::format("{}:{}: {}", program.name, line, message));
  }

  void describe() {
    KernelInfo &info = kernel.info;
    info.name = source.name;
    for (const Variable &parameter : source.parameters) {
      size_t offset = (info.parameterBytes + parameter.align - 1) /
                      parameter.align * parameter.align;
      info.parameters.push_back(
          {parameter.name, offset, parameter.bytes, parameter.align});
      info.parameterBytes = offset + parameter.bytes;
    }
    if (source.maxThreads)
      info.maxThreads = uint64_t((*source.maxThreads)[0]) *
                        (*source.maxThreads)[1] * (*source.maxThreads)[2];
    if (source.requiredThreads)
      info.requiredThreads = {(*source.requiredThreads)[0],
                              (*source.requiredThreads)[1],
                              (*source.requiredThreads)[2]};
  }

  void enter() {
    parents.push_back(scope);
    scope = nextScope++;
  }
  void leave() {
    scope = parents.back();
    parents.pop_back();
  }

  /// Gives every label the number of the instruction that follows it.
  void findLabels() {
    uint32_t count = 0;
    for (const Statement &statement : source.body) {
      if (auto *label = std::get_if<LabelText>(&statement.what)) {
        if (!labels.emplace(ScopedName{scope, label->name}, count).second)
          fail(statement.line, fmt::format("label '{}' again", label->name));
      } else if (auto *list = std::get_if<TargetsText>(&statement.what)) {
        targets[{scope, list->name}] = list;
      } else if (std::holds_alternative<OpenScope>(statement.what)) {
        enter();
      } else if (std::holds_alternative<CloseScope>(statement.what)) {
        leave();
      } else if (!std::holds_alternative<RegisterText>(statement.what)) {
        count++;
      }
    }
  }

  /// Looks a name up in the scope at hand and those around it.
  template <class Map>
  const typename Map::mapped_type &find(const Map &map, const std::string &name,
                                        int line) const {
    auto found = map.find({scope, name});
    for (auto outer = parents.rbegin();
         found == map.end() && outer != parents.rend(); ++outer)
      found = map.find({*outer, name});
    if (found == map.end())
      fail(line, fmt::format("there is no label '{}'", name));
    return found->second;
  }

  void add(Names &names, const Statement &statement) {
    if (std::holds_alternative<OpenScope>(statement.what)) {
      enter();
      names.open();
    } else if (std::holds_alternative<CloseScope>(statement.what)) {
      leave();
      names.close();
    } else if (auto *declared = std::get_if<RegisterText>(&statement.what)) {
      if (!names.declare(*declared))
        fail(statement.line,
             fmt::format("'{}' is declared again", declared->name));
    } else if (auto *undefined = std::get_if<ImplicitText>(&statement.what)) {
      const Register *found = names.findRegister(undefined->name);
      if (!found)
        fail(statement.line,
             fmt::format("'{}' is no register", undefined->name));
      Instruction made;
      made.run = leaveUndefined;
      made.writes.push_back(found->index);
      push(std::move(made), "implicit-def", statement.line);
    } else if (auto *text = std::get_if<InstructionText>(&statement.what)) {
      decode(names, *text, statement.line);
    }
  }

  void decode(Names &names, const InstructionText &text, int line) {
    std::string_view root = std::string_view(text.opcode);
    root = root.substr(0, root.find('.'));
    auto known = allOpcodes().find(root);
    if (known == allOpcodes().end())
      fail(line, fmt::format("unknown instruction '{}'", text.opcode));
    bool branches = root == "bra" || root == "brx";
    Decoder decoder(
        names, text, line,
        [this](int at, const std::string &message) { fail(at, message); });
    known->second(decoder);
    if (branches) {
      const OperandText &last = text.operands.back();
      if (last.kind != OperandText::Kind::Name)
        fail(line, "a branch needs a label");
      if (root == "bra")
        decoder.out.target = find(labels, last.name, line);
      else
        for (const std::string &label : find(targets, last.name, line)->labels)
          decoder.out.targets.push_back(find(labels, label, line));
    }
    push(std::move(decoder.out), text.opcode, line);
  }

  void push(Instruction made, const std::string &opcode, int line) {
    made.line = line;
    auto found =
        std::find(program.opcodes.begin(), program.opcodes.end(), opcode);
    made.opcode = uint32_t(found - program.opcodes.begin());
    if (found == program.opcodes.end())
      program.opcodes.push_back(opcode);
    kernel.code.push_back(std::move(made));
  }

  /// The end of the body is a return.
  void finish(Names &names) {
    Opcodes::mapped_type decodeReturn = allOpcodes().at("ret");
    InstructionText text;
    text.opcode = "ret";
    int line = source.body.empty() ? source.line : source.body.back().line;
    Decoder decoder(
        names, text, line,
        [this](int at, const std::string &message) { fail(at, message); });
    decodeReturn(decoder);
    push(std::move(decoder.out), text.opcode, line);
  }

  Program &program;
  const ModuleText &module;
  const KernelText &source;
  Kernel kernel;
  std::map<ScopedName, uint32_t> labels;
  std::map<ScopedName, const TargetsText *> targets;
  int scope = 0, nextScope = 1;
  std::vector<int> parents;
};

} // namespace

Module Module::parse(std::string_view text, std::string name) {
  ModuleText parsed = parseText(text, name);
  auto program = std::make_shared<Program>();
  program->name = std::move(name);
  program->target = parsed.target;
  for (const Variable &variable : parsed.variables)
    if (variable.space != Space::Shared)
      program->variables.push_back(variable);
  for (const KernelText &kernel : parsed.kernels) {
    for (const KernelInfo &info : program->infos)
      if (info.name == kernel.name)
        throw Error(kernel.line,
                    fmt::format("{}:{}: kernel '{}' again", program->name,
                                kernel.line, kernel.name));
    Builder(*program, parsed, kernel).build();
  }
  return Module(std::move(program));
}

const std::string &Module::name() const { return state->name; }
const std::string &Module::target() const { return state->target; }
const std::vector<KernelInfo> &Module::kernels() const { return state->infos; }

const KernelInfo &Module::kernel(std::string_view kernelName) const {
  for (const KernelInfo &info : state->infos)
    if (info.name == kernelName)
      return info;
  throw Error(0,
              fmt::format("{}: no kernel is called '{}'", name(), kernelName));
}

} // namespace attn::ptx
