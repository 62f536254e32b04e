import { ConfigError } from '../../core';
import type { TracedCall, TracedModule, TracedNode, TracedProgram, TracedTensor } from '../../training';
import { assignment, attributeText, freeNames, functionBody, inputsOf, isIdentifier } from './own-forward';
import { HELPERS } from './own-helpers';
import { requireFreeNames } from './own-names';
import { torchDtype } from './own-operations';
import { pythonValue } from './python';
import type { BundleFile, OwnBundleModel, PythonCode } from './target';

/** Names that classes of model.py cannot have. */
const RESERVED = new Set([
  ...['nn', 'torch', 'F', 'loss_of', 'os', 'load_file', 'constant', 'CONSTANTS', ''],
  ...['super', 'range', 'getattr', 'setattr'], // functions of Python that model.py calls
  ...Object.keys(HELPERS),
]);

/** Returns model.py: the classes of a traced model, and its loss. Throws: CONFIG for what PyTorch's code cannot say. */
function ownModelText(program: TracedProgram): {
  readonly text: string;
  readonly className: string;
  readonly unitClasses: readonly string[];
} {
  requireFreeNames(program);
  const writer = new ModelWriter(program);
  const className = writer.classOf('');
  const unitClasses = writer.ownClasses(program.units);
  const loss = lossText(program);
  const classes = writer.classes();
  const body = [...classes, loss].join('\n\n\n');
  const helpers = Object.entries(HELPERS).flatMap(([name, text]) =>
    body.includes(`${name}(`) ? [text] : [],
  );
  const hasConstants = body.includes('constant("');
  const head = [
    '"""The model and its loss, written from the operations that it ran; the names of parameters are those of the weights."""',
    '',
    ...(hasConstants ? ['import os', ''] : []),
    'import torch',
    'import torch.nn as nn',
    ...(body.includes('F.') || helpers.some((text) => text.includes('F.'))
      ? ['import torch.nn.functional as F']
      : []),
    ...(hasConstants ? ['from safetensors.torch import load_file', '', constantsText()] : []),
  ];
  return { text: `${[head.join('\n'), ...helpers, body].join('\n\n\n')}\n`, className, unitClasses };
}

/** Returns the code that reads the file of [Note: traced programs]' constants. */
function constantsText(): string {
  return `CONSTANTS = load_file(os.path.join(os.path.dirname(os.path.abspath(__file__)), "constants.safetensors"))


def constant(name, device):
    value = CONSTANTS[name].to(device)
    return value.long() if value.dtype == torch.int32 else value`;
}

/** Returns the function that computes the loss of a batch. */
function lossText(program: TracedProgram): string {
  const { body, values, loss } = program;
  const used = new Set(body.flatMap(inputsOf));
  const read = values.flatMap(({ source, dtype }, id) =>
    source.kind === 'input' && used.has(id) ? [{ id, key: source.name, isFlag: dtype === 'bool' }] : [],
  );
  const names = freeNames(read.map(({ key }) => key));
  const inputs = read.map((input, i) => ({ ...input, name: names[i] ?? '' }));
  const reads = inputs.map(
    ({ key, name, isFlag }) => `${name} = batch[${pythonValue(key)}]${isFlag ? '.bool()' : ''}`,
  );
  const scope = {
    program,
    names: new Map(inputs.map(({ id, name }) => [id, name])),
    training: 'True',
    parameter: () => null,
    callee: () => 'model',
    title: 'the loss',
  };
  const lines = [...reads, ...functionBody(scope, body, [loss])];
  return ['def loss_of(model, batch):', ...lines.map((line) => `    ${line}`)].join('\n');
}

/** Writes the classes of a model's modules; modules with the same code share a class. */
class ModelWriter {
  readonly #program: TracedProgram;
  readonly #modules: ReadonlyMap<string, TracedModule>;
  readonly #calls = new Map<string, TracedCall[]>();
  /** The names of classes, by their code. */
  readonly #names = new Map<string, string>();
  readonly #taken = new Set<string>(RESERVED);
  readonly #classes: string[] = [];

  constructor(program: TracedProgram) {
    this.#program = program;
    this.#modules = new Map(program.modules.map((module) => [module.path, module]));
    this.#collect(program.body);
  }

  classes(): readonly string[] {
    return this.#classes;
  }

  /** Returns the name of a module's class, which is written when it is first needed. */
  classOf(path: string): string {
    const module = this.#module(path);
    const lines = [...this.#constructorOf(module), ...this.#forwardOf(module)];
    const key = JSON.stringify([module.className, lines]);
    const known = this.#names.get(key);
    if (known !== undefined) return known;
    const base = isIdentifier(module.className) ? module.className : 'Net';
    let name = base;
    for (let i = 2; this.#taken.has(name); i++) name = `${base}${i}`;
    this.#taken.add(name);
    this.#names.set(key, name);
    this.#classes.push(
      [`class ${name}(nn.Module):`, ...lines.map((line) => (line === '' ? '' : `    ${line}`))].join('\n'),
    );
    return name;
  }

  /** Returns the names of modules' classes, without the layers of PyTorch. */
  ownClasses(paths: readonly string[]): readonly string[] {
    const own = paths.filter((path) => this.#module(path).kind === 'module');
    return [...new Set(own.map((path) => this.classOf(path)))];
  }

  #module(path: string): TracedModule {
    const module = this.#modules.get(path);
    if (module === undefined) throw new ConfigError(`export: the model has no module '${path}'`);
    return module;
  }

  #collect(nodes: readonly TracedNode[]): void {
    for (const node of nodes) {
      if (node.kind !== 'call') continue;
      this.#calls.set(node.module, [...(this.#calls.get(node.module) ?? []), node]);
      this.#collect(node.body);
    }
  }

  #constructorOf(module: TracedModule): readonly string[] {
    const children = module.children.flatMap(({ name, path }) => {
      if (path !== joined(module.path, name)) return [];
      const made = this.#made(path);
      return [
        isIdentifier(name) && !name.startsWith('__')
          ? `self.${name} = ${made}`
          : `self.add_module(${pythonValue(name)}, ${made})`,
      ];
    });
    const tensors = module.tensors.flatMap((tensor) => tensorLine(module, tensor));
    const ties = module.path === '' ? [...this.#ties(), ...this.#frozen()] : [];
    return [
      'def __init__(self):',
      '    super().__init__()',
      ...[...tensors, ...children, ...ties].map((line) => `    ${line}`),
    ];
  }

  /** Returns the expression that makes a module. */
  #made(path: string): string {
    const module = this.#module(path);
    const { kind, layer, children } = module;
    if (layer !== null) return layerText(layer);
    if (kind === 'module') return `${this.classOf(path)}()`;
    const own = children.filter((child) => child.path === joined(path, child.name));
    if (own.length < children.length)
      throw new ConfigError(
        `export: ${path} has a module that another list has too; give each list its own modules`,
      );
    const items = own.map((child) => this.#made(child.path));
    if (kind === 'dict')
      return `nn.ModuleDict({${own.map(({ name }, i) => `${pythonValue(name)}: ${items[i]}`).join(', ')}})`;
    if (kind === 'sequence') return `nn.Sequential(${items.join(', ')})`;
    const isEqual = items.length > 1 && new Set(items).size === 1;
    return `nn.ModuleList(${isEqual ? `${items[0]} for _ in range(${items.length})` : `[${items.join(', ')}]`})`;
  }

  /** Returns lines for modules and parameters that have several names. */
  #ties(): readonly string[] {
    return this.#program.modules.flatMap((module) => [
      ...module.children.flatMap(({ name, path }) =>
        path === joined(module.path, name)
          ? []
          : [assignment(this.#reach(module.path, ''), name, this.#reach(path, ''))],
      ),
      ...module.tensors.flatMap(({ name, fullName }) =>
        fullName === joined(module.path, name)
          ? []
          : [assignment(this.#reach(module.path, ''), name, `${this.#tensorIn('', fullName)}`)],
      ),
    ]);
  }

  #frozen(): readonly string[] {
    return this.#program.modules.flatMap(({ path, tensors }) =>
      tensors.flatMap(({ kind, name, fullName, requiresGrad }) =>
        kind !== 'parameter' || requiresGrad || fullName !== joined(path, name)
          ? []
          : [`${this.#tensorIn('', fullName)}.requires_grad_(False)`],
      ),
    );
  }

  #forwardOf(module: TracedModule): readonly string[] {
    const [first, ...others] = this.#calls.get(module.path) ?? [];
    if (first === undefined) return [];
    const lines = this.#callLines(module, first);
    if (others.some((later) => this.#callLines(module, later).join('\n') !== lines.join('\n'))) {
      throw new ConfigError(
        `export: ${titleOf(module)} is called several times and does not do the same each time; use a module per call`,
      );
    }
    return ['', ...lines];
  }

  #callLines(module: TracedModule, { inputs, body, outputs }: TracedCall): readonly string[] {
    const { inputNames } = module;
    const isNamed = inputNames.length >= inputs.length;
    const names = freeNames(
      inputs.map((_, i) => (isNamed ? (inputNames[i] ?? '') : inputs.length === 1 ? 'x' : `x_${i}`)),
    );
    const scope = {
      program: this.#program,
      names: new Map(inputs.map((id, i) => [id, names[i] ?? ''])),
      training: 'self.training',
      parameter: (fullName: string) => this.#tensorIn(module.path, fullName),
      callee: (path: string) => this.#reachIn(module, path),
      title: titleOf(module),
    };
    const lines = functionBody(scope, body, outputs);
    return [`def forward(${['self', ...names].join(', ')}):`, ...lines.map((line) => `    ${line}`)];
  }

  /** Returns the expression of a module within the forward of another one. */
  #reachIn(module: TracedModule, path: string): string {
    if (path.startsWith(module.path === '' ? '' : `${module.path}.`)) return this.#reach(path, module.path);
    const shared = module.children.find((child) => child.path === path);
    if (shared !== undefined) return attributeText('self', shared.name);
    throw new ConfigError(
      `export: ${titleOf(module)} calls ${path}, which is not in it; make it a field of the module`,
    );
  }

  /** Returns the expression of a module, from the module at `from`: 'self.blocks[0]'. */
  #reach(path: string, from: string): string {
    const names = (from === '' ? path : path.slice(from.length + 1)).split('.').filter((name) => name !== '');
    let at = from;
    return names.reduce((text, name) => {
      const kind = this.#module(at).kind;
      at = joined(at, name);
      if (kind === 'dict') return `${text}[${pythonValue(name)}]`;
      return kind === 'list' || kind === 'sequence' ? `${text}[${name}]` : attributeText(text, name);
    }, 'self');
  }

  /** Returns the expression of a parameter or buffer from the module at `from`; null if that module does not have it. */
  #tensorIn(from: string, fullName: string): string | null {
    const prefix = from === '' ? '' : `${from}.`;
    for (const { path, tensors } of this.#program.modules) {
      if (path !== from && !path.startsWith(prefix)) continue;
      const tensor = tensors.find((tied) => tied.fullName === fullName);
      if (tensor !== undefined) return attributeText(this.#reach(path, from), tensor.name);
    }
    return null;
  }
}

/** Returns sentences about differences of a user's own model from a run here. */
export function ownNotes({
  code,
  isRepeatable,
}: Pick<OwnBundleModel, 'code' | 'isRepeatable'>): readonly string[] {
  const seeds = isPythonCode(code)
    ? 'torch.Generator().manual_seed(index + 1)'
    : "tf.randomNormal(shape, 0, 1, 'float32', index + 1), because the seed 0 counts as none";
  return [
    ...(isPythonCode(code) ? pythonNotes(code) : code.fixed),
    ...(isRepeatable
      ? []
      : [
          `The batch function returns another batch when it is called again with the same rank and index, so the run here trains on other batches than those in data/. Give its random numbers seeds: ${seeds}.`,
        ]),
    ...(!isPythonCode(code) && drops(code)
      ? ["Dropout draws PyTorch's random numbers: other elements are dropped than here, so losses differ."]
      : []),
  ];
}

function pythonNotes({ skipsParameters }: PythonCode): readonly string[] {
  return [
    'The Python is a copy: files that it opens, such as a vocabulary, are not in the bundle.',
    ...(skipsParameters
      ? [
          'Under DDP, train.py says find_unused_parameters=True, because a forward may leave parameters out; take it out if every pass reaches all of them.',
        ]
      : []),
  ];
}

function drops({ modules, body }: TracedProgram): boolean {
  return (
    modules.some(({ layer }) => layer?.name.startsWith('Dropout') === true && layer.args[0] !== 0) ||
    JSON.stringify(body).includes('"ShardlabDropout"')
  );
}

/** Whether a model's code is the user's own Python. */
export function isPythonCode(code: OwnBundleModel['code']): code is PythonCode {
  return 'files' in code;
}

/** What train.py has of a user's own model. */
export interface WrittenModel {
  readonly files: readonly BundleFile[];
  readonly className: string;
  /** The import of the model, and the expressions that make it. */
  readonly imports: string;
  readonly model: string;
  readonly arguments: string;
  /** The function of train.py that computes a batch's loss; null: the model's file has it, or it is that of language models. */
  readonly loss: string | null;
  readonly units: readonly string[];
  readonly unitClasses: readonly string[];
  readonly ties: PythonCode['ties'];
  /** Whether some parameters that train get no gradient in a pass. */
  readonly skipsParameters: boolean;
  /** Whether data/ has integers as int32, which PyTorch's layers and losses read as int64. */
  readonly hasInt32: boolean;
}

/** Returns what train.py has of a user's own model. Throws: CONFIG for what PyTorch's code cannot say. */
export function writtenModel({ code }: OwnBundleModel): WrittenModel {
  if (isPythonCode(code)) {
    const { files, module, model, arguments: argumentsText, loss } = code;
    const { units, unitClasses, ties, skipsParameters } = code;
    const imports = `import ${module} as own_model`;
    return {
      ...{ files, className: model, imports, model: `own_model.${model}`, arguments: argumentsText },
      ...{ loss, units, unitClasses, ties, skipsParameters, hasInt32: !code.makesBatches },
    };
  }
  const { text, className, unitClasses } = ownModelText(code);
  return {
    files: [{ path: 'model.py', text }],
    ...{ className, imports: `from model import ${className}, loss_of`, model: className, arguments: '' },
    ...{
      loss: null,
      units: code.units,
      unitClasses,
      ties: tiesOf(code),
      skipsParameters: code.leavesParametersOut,
    },
    hasInt32: true,
  };
}

/** Returns the second names of parameters and buffers, each with the name under which the weights have the values. */
function tiesOf({ modules }: TracedProgram): readonly (readonly [second: string, first: string])[] {
  const at = new Map(modules.map((module) => [module.path, module]));
  const ties: (readonly [string, string])[] = [];
  const visit = (path: string, name: string): void => {
    for (const tensor of at.get(path)?.tensors ?? []) {
      const own = joined(name, tensor.name);
      if (own !== tensor.fullName) ties.push([own, tensor.fullName]);
    }
    for (const child of at.get(path)?.children ?? []) visit(child.path, joined(name, child.name));
  };
  visit('', '');
  return ties;
}

function titleOf({ className, path }: TracedModule): string {
  return path === '' ? `the forward of ${className}` : `the forward of ${className} at '${path}'`;
}

function joined(path: string, name: string): string {
  return path === '' ? name : `${path}.${name}`;
}

function layerText({ name, args, options }: NonNullable<TracedModule['layer']>): string {
  const named = Object.entries(options).map(([key, value]) => `${key}=${argumentText(value)}`);
  return `nn.${name}(${[...args.map(argumentText), ...named].join(', ')})`;
}

function argumentText(value: NonNullable<TracedModule['layer']>['args'][number]): string {
  if (value === null) return 'None';
  return typeof value === 'object' ? `(${value.map(argumentText).join(', ')})` : pythonValue(value);
}

function tensorLine(
  module: TracedModule,
  { name, fullName, shape, dtype, kind }: TracedTensor,
): readonly string[] {
  if (fullName !== joined(module.path, name)) return [];
  if (kind === 'constant buffer')
    throw new ConfigError(
      `export: the buffer ${fullName} is not persistent, so the weights do not have it; leave out persistent: false`,
    );
  const sizes = shape.length === 0 ? '()' : shape.join(', ');
  if (kind === 'parameter') return [assignment('self', name, `nn.Parameter(torch.empty(${sizes}))`)];
  return [`self.register_buffer(${pythonValue(name)}, torch.empty(${sizes}, dtype=${torchDtype(dtype)}))`];
}
