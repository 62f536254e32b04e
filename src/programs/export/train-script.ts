import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gradScalerOf, isSharded, llamaFfn, reduceDtypeOf, STRATEGIES, type TrainConfig } from '../../config';
import { findInstallation } from '../../core';
import { torchOptimizer } from './optimizer-arguments';
import { keywords, pythonValue } from './python';
import { leastOf, scheduleFlags, scheduleNumbers } from './script-schedule';
import { type BuiltInBundleModel, type BundleFacts, type BundleFile, builtInShape } from './target';

/** The class of the model's blocks in a script, by the model's kind. */
export const BLOCK_CLASSES = { gpt: 'Block', llama: 'LlamaBlock' } as const;

const TITLES = { gpt: 'GPT', llama: 'Llama' } as const;

/** Returns train.py for torchrun: DDP, ZeroRedundancyOptimizer or fully_shard. */
export function torchScript(facts: BundleFacts): BundleFile {
  const { config } = facts;
  const shape = builtInShape(facts);
  const { strategy, tp, wrap } = config.parallel;
  const isByUnits = isSharded(strategy, 'gradient');
  const isSplit = tp > 1;
  const way = isByUnits
    ? `PyTorch's FSDP2 (${strategy}${isSplit ? `, tensor parallelism of ${tp}` : ''})`
    : wayOfDDP(config);
  const { axes, sizes } = meshOf(facts);
  const names = axes.map((axis) => `"${axis}"`);
  return scriptOf(['decided', 'gpt_torchrun', 'torchrun'], facts, {
    title: `Trains a ${TITLES[shape.kind]} under ${way}; see README.md.`,
    flags: {
      IS_SHARDED: isByUnits,
      IS_HYBRID: STRATEGIES[strategy].isHybrid,
      IS_SPLIT: isSplit,
      SPLITS_QKV: isSplit && shape.kind === 'gpt',
      WRAPS_BLOCKS: wrap !== 'root' && wrap !== 'linear',
      WRAPS_LINEARS: wrap === 'linear',
      IS_ON_HOST: config.offload.parameters,
      IS_ZERO_1: shardsOptimizer(config),
      ...passFlags(config),
    },
    constants: { TP: tp },
    inlined: {
      DATA_RANK: isSplit ? 'rank // TP' : 'rank',
      DATA_RANKS: isSplit ? 'world // TP' : 'world',
      SIZES: tuple([...sizes, ...(isSplit ? ['TP'] : [])]),
      AXES: tuple([...names, ...(isSplit ? ['"tp"'] : [])]),
      LOW: lowOf(config),
      '**SHARDING': shardOptions(config),
      '**BUCKETS': bucketOptions(config).join(', '),
    },
  });
}

/** Whether the states of the optimizer, but no gradients, are sharded. */
export function shardsOptimizer({ parallel: { strategy } }: TrainConfig): boolean {
  return !isSharded(strategy, 'gradient') && isSharded(strategy, 'optimizer');
}

export function wayOfDDP(config: TrainConfig): string {
  return `PyTorch's DDP${shardsOptimizer(config) ? ' and ZeroRedundancyOptimizer' : ''}`;
}

/** Returns what is decided about the passes of a step. */
export function passFlags(config: TrainConfig): Filling['flags'] {
  const { strategy, noSync } = config.parallel;
  return {
    SYNCS_LAST: noSync ?? STRATEGIES[strategy].accumulatesLocally,
    AUTOCASTS: !isSharded(strategy, 'gradient') && lowOf(config) !== 'torch.float32',
  };
}

export function lowOf({ mixedPrecision }: TrainConfig): string {
  return `torch.${mixedPrecision?.paramDtype ?? 'float32'}`;
}

/** Returns the options of DDP. */
export function bucketOptions({ parallel: { bucketBytes } }: TrainConfig): readonly string[] {
  return bucketBytes === 25 * 2 ** 20 ? [] : [`bucket_cap_mb=${bucketBytes / 2 ** 20}`];
}

/** Returns train.py for Accelerate; the strategy is in the YAML files. */
export function accelerateScript(facts: BundleFacts): BundleFile {
  return scriptOf(['accelerate'], facts, {
    title: `Trains a ${TITLES[builtInShape(facts).kind]} by Accelerate. README.md says how to start it.`,
    inlined: { '**ACCELERATOR': acceleratorOptions(facts) },
  });
}

/** Returns the arguments of Accelerator; `handlers` are those besides the scaler of losses. */
export function acceleratorOptions(facts: BundleFacts, handlers: readonly string[] = []): string {
  const scaler = gradScalerOf(facts.config);
  const scaling = scaler && {
    init_scale: scaler.initScale,
    growth_factor: scaler.growthFactor,
    backoff_factor: scaler.backoffFactor,
    growth_interval: scaler.growthInterval,
  };
  const all = [...(scaling === null ? [] : [`GradScalerKwargs(${keywords(scaling)})`]), ...handlers];
  const options = [
    ...(facts.config.accumulation > 1 ? ['gradient_accumulation_steps=ACCUMULATION'] : []),
    ...(all.length === 0 ? [] : [`kwargs_handlers=[${all.join(', ')}]`]),
  ];
  return options.join(', ');
}

/** Returns train.py for DeepSpeed; the strategy is in ds_config.json. */
export function deepSpeedScript(facts: BundleFacts): BundleFile {
  const { config } = facts;
  const shape = builtInShape(facts);
  const isPartitioned = STRATEGIES[config.parallel.strategy].zeroStage === 3;
  return scriptOf(['deepspeed'], facts, {
    title: `Trains a ${TITLES[shape.kind]} by DeepSpeed. README.md says how to start it.`,
    flags: { READS_OUTSIDE: isPartitioned && (shape.kind === 'gpt' || shape.tied) },
    inlined: {
      // Non-reentrant activation checkpoints compare the shapes of saved tensors, which ZeRO-3 changes before backward.
      REENTRANT: pythonValue(isPartitioned),
      SCHEDULER: schedulerOf(config),
    },
  });
}

/** Returns what DeepSpeed gets as the schedule of the learning rate. */
export function schedulerOf({ schedule }: TrainConfig): string {
  return schedule === null ? 'None' : 'lambda optimizer: LambdaLR(optimizer, lr_factor)';
}

function scriptOf(
  files: readonly string[],
  facts: BundleFacts,
  { title, ...own }: Pick<Filling, 'title'> & Partial<Filling>,
): BundleFile {
  const { config } = facts;
  const shape = builtInShape(facts);
  const filling = withTraining(facts, {
    title,
    flags: { ...modelFlags(shape, config), ...own.flags },
    constants: { ...modelConstants(shape), ...own.constants },
    inlined: {
      MODEL: TITLES[shape.kind],
      '**ARGUMENTS': '',
      REENTRANT: 'False',
      NTH: `${nthOf(config) ?? 1}`,
      QKV_BIAS: pythonValue(shape.kind === 'llama' && shape.qkvBias),
      ...own.inlined,
    },
  });
  return { path: 'train.py', text: scriptFrom([shape.kind, 'common', ...files], filling) };
}

/** Adds what a script has of the training: optimizer, schedule, steps. */
export function withTraining(
  facts: BundleFacts,
  { title, flags, constants, inlined, ...rest }: Pick<Filling, 'title'> & Partial<Filling>,
): Filling {
  const { config, firstStep, shape } = facts;
  const optimizer = torchOptimizer(config);
  const [isOwn, isVideo] = [shape.kind === 'own', shape.kind === 'dit'];
  return {
    ...rest,
    title,
    flags: {
      ...scheduleFlags(config),
      HAS_TOKENS: !isOwn && !isVideo,
      IS_OWN: isOwn,
      IS_VIDEO: isVideo,
      IS_SPLIT: false,
      READS_OUTSIDE: false,
      HAS_TIES: false,
      ENCODES: false,
      DRAWS: false,
      IS_CONTINUED: firstStep > 0,
      ACCUMULATES: config.accumulation > 1,
      CLIPS: config.clipNorm !== null,
      FREEZES: config.frozen.length > 0,
      ...flags,
    },
    constants: { ...trainingConstants(facts), ...constants },
    inlined: {
      ...scheduleNumbers(config, leastOf(config)),
      OPTIMIZER: `torch.optim.${optimizer.name}`,
      '**OPTIONS': keywords(optimizer.args),
      STEP_NUMBER: firstStep > 0 ? 'FIRST_STEP + step + 1' : 'step + 1',
      '{FORMAT}': isOwn || isVideo ? '.8f' : '.6f',
      ...inlined,
    },
  };
}

export function nthOf({ activationCheckpointing: chosen }: TrainConfig): number | null {
  return typeof chosen === 'object' && chosen !== null && 'everyNth' in chosen ? chosen.everyNth : null;
}

function modelFlags(shape: BuiltInBundleModel, config: TrainConfig): Filling['flags'] {
  return {
    IS_TIED: shape.tied,
    RECOMPUTES: config.activationCheckpointing !== null,
    RECOMPUTES_SOME: nthOf(config) !== null,
  };
}

function modelConstants(shape: BuiltInBundleModel): Filling['constants'] {
  const { vocab, seq, layers, dim, heads } = shape;
  const common = { VOCAB: vocab, LAYERS: layers, DIM: dim, HEADS: heads };
  if (shape.kind === 'gpt') return { ...common, SEQ: seq, FFN: shape.ffn ?? 4 * dim };
  return {
    ...common,
    FFN: shape.ffn ?? llamaFfn(dim),
    KV_HEADS: shape.kvHeads ?? heads,
    HEAD_DIM: dim / heads,
    ROPE_THETA: shape.ropeTheta,
    NORM_EPS: shape.normEps,
  };
}

function trainingConstants({ config, firstStep }: BundleFacts): Filling['constants'] {
  const patterns = config.frozen.map((name) => name.replaceAll('.', '\\.').replaceAll('*', '[^.]+'));
  return {
    STEPS: config.steps,
    ACCUMULATION: config.accumulation,
    FIRST_STEP: firstStep,
    CLIP_NORM: config.clipNorm ?? 0,
    FROZEN: `re.compile(r"(?:${patterns.join('|')})(?:\\.|$)")`,
  };
}

export function tuple(parts: readonly string[]): string {
  return parts.length === 1 ? `(${parts[0]},)` : `(${parts.join(', ')})`;
}

/** Returns the axes of data parallelism and the Python expressions of their sizes. */
export function meshOf({ config, machines, gpusPerMachine }: BundleFacts): {
  readonly axes: readonly string[];
  readonly sizes: readonly string[];
} {
  const { strategy, mesh, tp } = config.parallel;
  if (!STRATEGIES[strategy].isHybrid)
    return { axes: ['dp'], sizes: [tp > 1 ? 'dist.get_world_size() // TP' : 'dist.get_world_size()'] };
  const replicas = mesh?.dpReplicate ?? machines;
  const shards = mesh?.dpShard ?? gpusPerMachine / tp;
  return { axes: ['dp_replicate', 'dp_shard'], sizes: [`${replicas}`, `${shards}`] };
}

/** Returns the arguments of fully_shard except the mesh. */
export function shardOptions(config: TrainConfig): string {
  const { strategy, reshardAfterForward: chosen } = config.parallel;
  const isKept = !STRATEGIES[strategy].reshardAfterForward;
  const reshard = chosen ?? (isKept ? false : null);
  return [
    ...(reshard === null ? [] : [`reshard_after_forward=${pythonValue(reshard)}`]),
    ...precisionOption(config),
    ...(config.offload.parameters
      ? ['offload_policy=CPUOffloadPolicy(pin_memory=device.type == "cuda")']
      : []),
  ].join(', ');
}

function precisionOption(config: TrainConfig): string[] {
  const { mixedPrecision } = config;
  if (mixedPrecision === null) return [];
  const { paramDtype, outputDtype, castForwardInputs } = mixedPrecision;
  const types = { param_dtype: paramDtype, reduce_dtype: reduceDtypeOf(config), output_dtype: outputDtype };
  const policy = [
    ...Object.entries(types).flatMap(([key, dtype]) => (dtype === null ? [] : [`${key}=torch.${dtype}`])),
    ...(castForwardInputs ? [] : ['cast_forward_inputs=False']),
  ];
  return [`mp_policy=MixedPrecisionPolicy(${policy.join(', ')})`];
}

/**
 * [Note: templates] train.py of a bundle is made of Python files in src/python/bundle_scripts, which run and are type-checked as they
 * are. An export gives the constants at their top the values of a config; it decides each `if` whose condition is one of its flags; it
 * writes the text of some names in their place, and the expression of a function that only returns one in place of its calls; and it leaves
 * out imports, constants and functions that nothing uses any more.
 */
export interface Filling {
  /** The docstring of the script. */
  readonly title: string;
  /** The conditions that the export decides, such as IS_TIED. */
  readonly flags: Readonly<Record<string, boolean>>;
  /** Values of constants, as Python writes them. */
  readonly constants: Readonly<Record<string, string | number>>;
  /** Imports of other files of the bundle. */
  readonly imports?: readonly string[];
  /** Code beside that of the templates, which stays as it is. */
  readonly code?: string;
  /** Expressions that take the place of names or of '**OPTIONS'. */
  readonly inlined: Readonly<Record<string, string>>;
}

/** Returns a script that is made of some of the files, which are named without '.py'. Throws: errors of the file system. */
export function scriptFrom(files: readonly string[], filling: Filling): string {
  const own = partsOf(filling.code ?? '', filling).map((part) => ({ ...part, isOwn: true }));
  const all = [
    ...files.slice(0, 1).flatMap((name) => partsOf(readTemplate(name), filling)),
    ...own,
    ...files.slice(1).flatMap((name) => partsOf(readTemplate(name), filling)),
  ];
  const returned = Object.fromEntries(all.flatMap((part) => ('isOwn' in part ? [] : returnedBy(part.text))));
  const parts = all.flatMap((part) =>
    returnedBy(part.text).length > 0 && !('isOwn' in part)
      ? []
      : 'isOwn' in part
        ? [part]
        : [{ ...part, text: withInlined(withInlined(part.text, returned), filling.inlined) }],
  );
  const code = used(parts.filter(({ kind }) => kind !== 'import'));
  const text = (kind: Part['kind'], between: string): string =>
    code
      .filter((part) => part.kind === kind)
      .map((part) => part.text)
      .join(between);
  const imports = parts.flatMap(({ kind, text: line }) => (kind === 'import' ? [line] : []));
  const [standard, others] = importsOf(imports, code.map((part) => part.text).join('\n'));
  const imported = (filling.imports ?? []).map((line) => `\n\n${line}`).join('');
  return `"""${filling.title}"""\n\n${standard}\n\n${others}${imported}\n\n${text('constants', '\n')}\n\n\n${text('block', '\n\n\n')}\n`;
}

/** A part of a Python file: an import, a line of constants, or a function, a class or the statement that starts the script. */
interface Part {
  readonly kind: 'import' | 'constants' | 'block';
  /** The names that the part defines; a part without names is always used. */
  readonly names: readonly string[];
  readonly text: string;
}

/** The text of each template that was read. */
const TEXTS = new Map<string, string>();

function readTemplate(name: string): string {
  const text =
    TEXTS.get(name) ??
    readFileSync(join(findInstallation(), 'src', 'python', 'bundle_scripts', `${name}.py`), 'utf8');
  TEXTS.set(name, text);
  return text;
}

/** Whether templates have a word, so that it must not name the user's class. */
export function isWordOf(templates: readonly string[], word: string): boolean {
  return templates.some((template) => readTemplate(template).split(/\W+/).includes(word));
}

function partsOf(template: string, { flags, constants, inlined }: Filling): Part[] {
  const isDecided = (name: string): boolean => Object.hasOwn(flags, name) || hasInlined(name, inlined);
  return template
    .split(/\n{2,}(?=\S)|\n(?=import |from |[A-Z_]+(?:, [A-Z_]+)*(?:: .*)? = )/)
    .flatMap((part): Part[] => {
      const text = part.trimEnd();
      if (/^(import|from) /.test(text))
        return /^from (\.|shardlab_torch)/.test(text) ? [] : [{ kind: 'import', names: [], text }];
      const [, line = ''] = /^([A-Z_]+(?:, [A-Z_]+)*)(?:: .*)? = /.exec(text) ?? [];
      const names = line === '' ? [] : line.split(', ');
      if (names.some(isDecided)) return [];
      if (names.length > 0) return [{ kind: 'constants', names, text: withValues(text, names, constants) }];
      const [, name] = /^(?:def|class) (\w+)/.exec(text) ?? [];
      if (name === undefined && !text.startsWith('if ')) return [];
      const lines = decided(text.split('\n'), flags).join('\n');
      return [{ kind: 'block', names: name === undefined ? [] : [name], text: lines }];
    });
}

/** Returns the call of a function that only returns an expression, with this expression; else nothing. */
function returnedBy(block: string): readonly (readonly [call: string, expression: string])[] {
  const [, call, expression] =
    /^def (\w+\([\w, ]*\))(?: -> \w+)?:(?: {2}#.*)?\n {4}return (.*)$/.exec(block) ?? [];
  return call === undefined || expression === undefined ? [] : [[call, expression]];
}

function hasInlined(name: string, inlined: Filling['inlined']): boolean {
  return Object.hasOwn(inlined, name) || Object.hasOwn(inlined, `**${name}`);
}

/** Gives the constants of a line their values; a comment stays. */
function withValues(text: string, names: readonly string[], constants: Filling['constants']): string {
  if (!names.every((name) => Object.hasOwn(constants, name))) return text;
  const [, comment = ''] = /( {2}# .*)$/.exec(text) ?? [];
  return `${names.join(', ')} = ${names.map((name) => constants[name]).join(', ')}${comment}`;
}

/** Writes expressions in the place of names. An empty text for '**OPTIONS' also removes the comma before it. */
function withInlined(code: string, inlined: Filling['inlined']): string {
  return Object.entries(inlined).reduce((text, [name, value]) => {
    if (!text.includes(name)) return text;
    const words = name.replaceAll(/[*(){}]/g, '\\$&');
    const place = new RegExp(`${value === '' ? '(?:, )?' : ''}(?<!\\w)${words}(?!\\w)`, 'g');
    return text.replaceAll(place, () => value);
  }, code);
}

/** Keeps the branches that the flags choose, without their `if`, `elif` and `else`. */
function decided(lines: readonly string[], flags: Filling['flags']): string[] {
  const kept: string[] = [];
  for (let at = 0; at < lines.length; ) {
    const line = lines[at] ?? '';
    const [, indent = '', not, flag = ''] = /^( *)if (not )?([A-Z_0-9]+):$/.exec(line) ?? [];
    if (!Object.hasOwn(flags, flag)) {
      kept.push(line);
      at++;
      continue;
    }
    let [isOpen, isBlankAfter] = [true, false];
    let isChosen = flags[flag] === (not === undefined);
    do {
      const end = lines.findIndex((one, i) => i > at && one !== '' && !one.startsWith(`${indent} `));
      const body = lines.slice(at + 1, end < 0 ? lines.length : end);
      if (isChosen) kept.push(...decided(body, flags).map((one) => one.replace(/^ {4}/, '')));
      isBlankAfter = !isChosen && body.at(-1) === '';
      isOpen &&= !isChosen;
      at = end < 0 ? lines.length : end;
      const [, next] = new RegExp(`^${indent}(?:elif ([A-Z_0-9]+)|else):$`).exec(lines[at] ?? '') ?? [];
      isChosen = isOpen && (next === undefined || flags[next] === true);
    } while (new RegExp(`^${indent}(elif [A-Z_0-9]+|else):$`).test(lines[at] ?? ''));
    if (isBlankAfter) kept.push(''); // the blank line after the statement
  }
  return kept;
}

/** Leaves out parts whose names no used part has. */
function used(parts: readonly Part[]): Part[] {
  const found = new Set(parts.filter(({ names }) => names.length === 0));
  for (let size = 0; size < found.size; ) {
    size = found.size;
    const words = wordsOf([...found].map(({ text }) => text).join('\n'));
    for (const part of parts) if (part.names.some((name) => words.has(name))) found.add(part);
  }
  return parts.filter((part) => found.has(part));
}

/** Returns the imports of names that the code has: those of Python itself, and the others, sorted as isort does by default. */
function importsOf(imports: readonly string[], code: string): readonly [string, string] {
  const words = wordsOf(code);
  const named = imports.flatMap((line) => {
    const [, start = '', list = ''] = /^(from .* import |import )(.*)$/.exec(line) ?? [];
    const names = list
      .split(', ')
      .filter((name) => words.has(name.split(' as ').at(-1)?.split('.')[0] ?? ''));
    return names.map((name) => ({ start, name }));
  });
  // A line per module for the names that several files import from it.
  const namesFrom = (from: string): string =>
    [...new Set(named.flatMap(({ start, name }) => (start === from ? [name] : [])))].sort().join(', ');
  const kept = named.map(({ start, name }) => `${start}${start === 'import ' ? name : namesFrom(start)}`);
  const module = (text: string): string => text.split(' ')[1] ?? '';
  const sorted = [...new Set(kept)].sort(
    (a, b) => Number(a.startsWith('from')) - Number(b.startsWith('from')) || (module(a) < module(b) ? -1 : 1),
  );
  const isStandard = (text: string): boolean =>
    ['functools', 'math', 'os', 're', 'typing'].includes(module(text));
  return [sorted.filter(isStandard).join('\n'), sorted.filter((text) => !isStandard(text)).join('\n')];
}

/** Returns the names that code reads: also those in braces of its texts, but no attributes. */
function wordsOf(code: string): ReadonlySet<string> {
  const plain = code
    .replaceAll(/#.*/g, '')
    .replaceAll(/"[^"\n]*"/g, (text) => (text.match(/\{[^}]*\}/g) ?? []).join(' '));
  return new Set(plain.match(/(?<![\w.])[A-Za-z_]\w*/g) ?? []);
}
