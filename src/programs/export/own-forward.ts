import { ConfigError } from '../../core';
import type {
  Attribute,
  TracedCall,
  TracedNode,
  TracedNumber,
  TracedOperation,
  TracedProgram,
  TracedValue,
} from '../../training';
import { BINDING, binary, call, type Expression, floatText, method, tupleOf, whole } from './own-expression';
import { HELPERS } from './own-helpers';
import { OPERATIONS, type OperationParts, type OperationWriter, torchDtype } from './own-operations';
import { pythonValue } from './python';

/** An expression is written in the place of its only use if the line stays at most this long. */
const LONGEST = 90;

/** The parts of a function that is written. */
export interface FunctionScope {
  readonly program: TracedProgram;
  /** Tensors of the program that have names when the function begins, by id. */
  readonly names: ReadonlyMap<number, string>;
  /** Whether random layers drop: 'self.training', or 'True' in the loss. */
  readonly training: string;
  /** Returns the expression of a parameter or buffer; null if the function cannot reach it. */
  readonly parameter: (fullName: string) => string | null;
  /** Returns the expression of a module that is called. */
  readonly callee: (path: string) => string;
  /** The words for the function in messages. */
  readonly title: string;
}

/** Returns the lines of a function's body that computes `outputs`, and returns them. Throws: CONFIG for what PyTorch's code cannot say. */
export function functionBody(
  scope: FunctionScope,
  nodes: readonly TracedNode[],
  outputs: readonly number[],
): readonly string[] {
  return new FunctionWriter(scope, nodes, outputs).lines();
}

class FunctionWriter {
  readonly #scope: FunctionScope;
  readonly #nodes: readonly TracedNode[];
  readonly #outputs: readonly number[];
  readonly #expressions = new Map<number, Expression>();
  /** The names that expressions get if they need a line of their own. */
  readonly #bases = new Map<number, string>();
  /** The tensors that have a name, so that their shapes can be read. */
  readonly #places: { readonly id: number; readonly name: string }[] = [];
  readonly #uses = new Map<number, number>();
  readonly #lines: string[] = [];
  readonly #taken = new Set<string>(TAKEN);

  constructor(scope: FunctionScope, nodes: readonly TracedNode[], outputs: readonly number[]) {
    this.#scope = scope;
    this.#nodes = nodes;
    this.#outputs = outputs;
    for (const [id, name] of scope.names) this.#name(id, name); // `freeNames` has made them valid
    for (const id of [...nodes.flatMap(inputsOf), ...outputs])
      this.#uses.set(id, (this.#uses.get(id) ?? 0) + 1);
  }

  lines(): readonly string[] {
    for (const node of this.#nodes) {
      if (node.kind === 'call') this.#call(node);
      else this.#operation(node);
    }
    const results = this.#outputs.map((id) => this.#tensor(id, '').text);
    return [...this.#lines, results.length === 0 ? 'return None' : `return ${results.join(', ')}`];
  }

  #call(node: TracedCall): void {
    const { module, inputs, outputs, line } = node;
    const layer = this.#scope.program.modules.find(({ path }) => path === module)?.layer ?? null;
    const texts = inputs.map((id) => this.#tensor(id, line).text);
    const isLong = layer?.name === 'LSTM' && texts.length > 1;
    const args = isLong ? [texts[0] ?? '', tupleOf([texts[1] ?? '', texts[2] ?? texts[1] ?? ''])] : texts;
    const made = call(this.#scope.callee(module), ...args);
    const fresh = outputs.filter((id) => !inputs.includes(id));
    if (fresh.length === 0) return;
    const last = module.split('.').at(-1) ?? '';
    const base = isIdentifier(last) ? last : last === '' ? 'output' : 'h';
    if (outputs.length === 1) {
      this.#result(fresh[0] ?? 0, made, base);
      return;
    }
    const names = outputs.map((id, i) =>
      inputs.includes(id) || !this.#isUsed(id) ? '_' : this.#fresh(id, i === 0 ? base : `${base}_${i}`),
    );
    const [output = '_', ...states] = names;
    const left = layer?.name === 'LSTM' ? `${output}, (${states.join(', ')})` : names.join(', ');
    this.#lines.push(`${left} = ${made.text}`);
  }

  #operation(node: TracedOperation): void {
    const { name, outputs, line } = node;
    const write = Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
    if (write === undefined) this.#refuse(`the operation ${name} has no form in PyTorch here`, line);
    if (!outputs.some((id) => this.#isUsed(id))) return;
    const made = this.#written(node, write);
    if ('all' in made) {
      const names = outputs.map((id) => (this.#isUsed(id) ? this.#fresh(id, baseOf(name)) : '_'));
      this.#lines.push(`${names.length === 1 ? `${names[0]},` : names.join(', ')} = ${made.all.text}`);
      return;
    }
    const [first = 0, ...others] = outputs;
    if (others.some((id) => this.#isUsed(id)))
      this.#refuse(`the second output of ${name} is not exported`, line);
    this.#result(first, made, baseOf(name));
  }

  /** Returns an operation's expression; if it is too long, its longest inputs get lines of their own first. */
  #written(node: TracedOperation, write: OperationWriter): ReturnType<OperationWriter> {
    const made = write(this.#partsOf(node));
    const { text } = 'all' in made ? made.all : made;
    if (text.length <= LONGEST) return made;
    for (const id of Object.values(node.inputs)) {
      if ((this.#expressions.get(id)?.text.length ?? 0) > LONGEST / 4) this.#named(id, node.line);
    }
    return write(this.#partsOf(node));
  }

  /** Returns the name of a tensor, which gets one if it has none. */
  #named(id: number, line: string): Expression {
    const made = this.#tensor(id, line);
    if (isIdentifier(made.text)) return made;
    this.#lines.push(`${this.#fresh(id, this.#bases.get(id) ?? 'h')} = ${made.text}`);
    return this.#tensor(id, line);
  }

  /** Gives a tensor its expression: in the place of its only use, or in a line of its own. */
  #result(id: number, made: Expression, base: string): void {
    this.#bases.set(id, base);
    if (isIdentifier(made.text) || ((this.#uses.get(id) ?? 0) <= 1 && made.text.length <= LONGEST)) {
      if (this.#isUsed(id)) this.#expressions.set(id, made);
      return;
    }
    this.#lines.push(`${this.#fresh(id, base)} = ${made.text}`);
  }

  #partsOf({ name, inputs, attrs, outputs, line, isDetached }: TracedOperation): OperationParts {
    const { values } = this.#scope.program;
    const idOf = (key: string): number => inputs[key] ?? this.#refuse(`${name} has no input ${key}`, line);
    return {
      tensor: (key) => this.#tensor(idOf(key), line),
      named: (key) => this.#named(idOf(key), line),
      operand: (key) => this.#operand(idOf(key), { inputs, output: outputs[0] ?? 0, line }),
      inputNames: Object.keys(inputs),
      attr: (key) => attrs[key] ?? null,
      number: (value) => this.#number(value, line),
      scalar: (key, dtype) => this.#scalar(attrs[key] ?? 0, dtype ?? 'float32', line),
      value: (key) => this.#valueOf(idOf(key)),
      outputs: outputs.map((id) => values[id] as TracedValue), // a program has all its values
      device: this.#device(line),
      training: this.#scope.training,
      isDetached,
      refuse: (why) => this.#refuse(`${why} has no form in PyTorch here`, line),
    };
  }

  /** Returns a number as such if another input has the result's shape and type; else a tensor. */
  #operand(
    id: number,
    {
      inputs,
      output,
      line,
    }: { readonly inputs: TracedOperation['inputs']; readonly output: number; readonly line: string },
  ): Expression {
    const { source, dtype } = this.#valueOf(id);
    const shape = JSON.stringify(this.#valueOf(output).shape);
    const isBeside = Object.values(inputs).some((besideId) => {
      const beside = this.#valueOf(besideId);
      return (
        besideId !== id &&
        beside.source.kind !== 'number' &&
        JSON.stringify(beside.shape) === shape &&
        beside.dtype === dtype
      );
    });
    if (source.kind !== 'number' || !isBeside) return this.#tensor(id, line);
    return this.#numberExpression(source.value, dtype, line);
  }

  #scalar(value: Attribute, dtype: TracedValue['dtype'], line: string): string {
    const number = typeof value === 'object' ? (value as TracedNumber) : Number(value); // an object is an extent
    return this.#numberExpression(number, dtype, line).text;
  }

  #numberExpression(value: TracedNumber, dtype: TracedValue['dtype'], line: string): Expression {
    if (typeof value === 'number') return whole(dtype === 'float32' ? floatText(value) : `${value}`);
    const { factor, batch, sequence } = value;
    const isInverse = (batch < 0 || sequence < 0) && batch <= 0 && sequence <= 0;
    if (!isInverse) return { text: this.#number(value, line), binding: BINDING.sum };
    const below = this.#number({ ...value, factor: 1, batch: -batch, sequence: -sequence }, line);
    return binary(whole(floatText(factor)), '/', { text: below, binding: BINDING.product }, BINDING.product);
  }

  #tensor(id: number, line: string): Expression {
    const known = this.#expressions.get(id);
    if (known !== undefined) return known;
    const { source, shape, dtype } = this.#valueOf(id);
    switch (source.kind) {
      case 'parameter': {
        const name = this.#scope.parameter(source.name);
        return whole(name ?? this.#refuse(`it reads ${source.name} of another module`, line));
      }
      case 'number': {
        const extents = shape.map((extent) => this.#number(extent, line));
        const value = this.#numberExpression(source.value, dtype, line).text;
        return call(
          'torch.full',
          extents.length === 0 ? '()' : tupleOf(extents),
          value,
          `dtype=${torchDtype(dtype)}`,
          `device=${this.#device(line)}`,
        );
      }
      case 'constant':
        return constantText(source.name, this.#device(line), dtype);
      case 'input':
        return this.#refuse(
          `it reads the batch's ${source.name}, which is not an input of its forward`,
          line,
        );
      case 'result':
        return this.#refuse(
          'it uses a tensor of another module that this module neither gets nor is returned to it',
          line,
        );
      default:
        return source satisfies never;
    }
  }

  #number(value: TracedNumber, line: string): string {
    if (typeof value === 'number') return `${value}`;
    const exact = this.#extentOf(value);
    if (exact !== null) return exact;
    const factors = [
      ...(value.factor === 1 ? [] : [`${value.factor}`]),
      ...(['batch', 'sequence'] as const).flatMap((dim) => {
        if (value[dim] === 0) return [];
        if (value[dim] < 0) this.#refuse(`a size is divided by the ${dim}`, line);
        const extent = { factor: 1, batch: 0, sequence: 0, offset: 0, [dim]: 1 };
        return [
          this.#extentOf(extent) ?? this.#refuse(`no input of its forward has the ${dim} as a dim`, line),
        ];
      }),
    ];
    const product = factors.join(' * ');
    if (value.offset === 0) return product;
    return `${product} ${value.offset < 0 ? '-' : '+'} ${Math.abs(value.offset)}`;
  }

  /** Returns the dim of a tensor with a name that has this extent. */
  #extentOf(extent: Exclude<TracedNumber, number>): string | null {
    for (const { id, name } of this.#places) {
      const dim = this.#valueOf(id).shape.findIndex(
        (size) => typeof size === 'object' && isSameExtent(size, extent),
      );
      if (dim >= 0) return `${name}.shape[${dim}]`;
    }
    return null;
  }

  #device(line: string): string {
    const [first] = this.#places;
    return first === undefined ? this.#refuse('its forward has no input', line) : `${first.name}.device`;
  }

  #valueOf(id: number): TracedValue {
    return this.#scope.program.values[id] as TracedValue; // a program has all its values
  }

  #isUsed(id: number): boolean {
    return this.#uses.has(id);
  }

  #fresh(id: number, base: string): string {
    let name = base;
    for (let i = 2; this.#taken.has(name); i++) name = `${base}_${i}`;
    this.#name(id, name);
    return name;
  }

  #name(id: number, name: string): void {
    this.#taken.add(name);
    this.#places.push({ id, name });
    this.#expressions.set(id, whole(name));
  }

  #refuse(why: string, line: string): never {
    throw new ConfigError(
      `export: ${this.#scope.title}${line === '' ? '' : ` (${line})`}: ${why}; change the model, or write it in Python`,
    );
  }
}

/** Words that no name of Python may be. Source: keyword.kwlist. */
const KEYWORDS = new Set(
  `False None True and as assert async await break class continue def del elif else except finally for from global if import in is
  lambda nonlocal not or pass raise return try while with yield`.split(/\s+/),
);

/** Names that a function of model.py uses for something else than its tensors. */
const TAKEN = [
  ...['self', 'batch', 'model', 'torch', 'nn', 'F', 'constant', 'getattr'],
  ...Object.keys(HELPERS),
  ...KEYWORDS,
];

/** Returns names of Python like the given ones, all different, and none of which a function needs otherwise. */
export function freeNames(names: readonly string[]): readonly string[] {
  const taken = new Set<string>(TAKEN);
  return names.map((name) => {
    const word = name.replaceAll(/\W/g, '_');
    let free = /^[A-Za-z_]/.test(word) ? word : `x_${word}`;
    while (taken.has(free)) free += '_';
    taken.add(free);
    return free;
  });
}

/** Returns the expression of an attribute. In a class, Python changes names that begin with two underscores. */
export function attributeText(object: string, name: string): string {
  return isAttribute(name) ? `${object}.${name}` : `getattr(${object}, ${pythonValue(name)})`;
}

/** Returns the line that sets an attribute. */
export function assignment(object: string, name: string, value: string): string {
  return isAttribute(name)
    ? `${object}.${name} = ${value}`
    : `setattr(${object}, ${pythonValue(name)}, ${value})`;
}

function isAttribute(name: string): boolean {
  return isIdentifier(name) && !name.startsWith('__');
}

/** Returns the tensor of a constant; the file has booleans as integers. */
function constantText(name: string, device: string, dtype: TracedValue['dtype']): Expression {
  const stored = call('constant', pythonValue(name), device);
  return dtype === 'bool' ? method(stored, 'bool') : stored;
}

/** Whether a text is a name of Python. */
export function isIdentifier(text: string): boolean {
  return /^[A-Za-z_]\w*$/.test(text) && !KEYWORDS.has(text);
}

/** Returns the ids of the tensors that a node reads. */
export function inputsOf(node: TracedNode): readonly number[] {
  return node.kind === 'call' ? node.inputs : Object.values(node.inputs);
}

function isSameExtent(a: Exclude<TracedNumber, number>, b: Exclude<TracedNumber, number>): boolean {
  return a.factor === b.factor && a.batch === b.batch && a.sequence === b.sequence && a.offset === b.offset;
}

/** The names of results, by operation. */
const BASES: Readonly<Record<string, string>> = {
  BatchMatMul: 'product',
  Softmax: 'weights',
  SplitV: 'part',
  Unpack: 'part',
  TopK: 'top',
  Mean: 'mean',
  Sum: 'total',
};

function baseOf(operation: string): string {
  return BASES[operation] ?? 'h';
}
