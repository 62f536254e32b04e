import type { Attribute, TracedNumber, TracedValue } from '../../training';
import { BINDING, binary, call, type Expression, method, tupleOf, whole, within } from './own-expression';
import { pythonValue } from './python';

/** An operation of a traced program, as the table below sees it. */
export interface OperationParts {
  /** Returns an input as a tensor. */
  tensor(name: string): Expression;
  /** Returns an input that the operation reads twice, by a name. */
  named(name: string): Expression;
  /** Returns an input that may be a number, beside a tensor of the result's shape. */
  operand(name: string): Expression;
  readonly inputNames: readonly string[];
  attr(name: string): Attribute;
  /** Returns a whole number of the program in Python. */
  number(value: TracedNumber): string;
  /** Returns an attribute as an element of a tensor in Python; it may depend on the batch. */
  scalar(name: string, dtype?: TracedValue['dtype']): string;
  value(name: string): TracedValue;
  readonly outputs: readonly TracedValue[];
  /** A tensor whose device new tensors have. */
  readonly device: string;
  /** Whether random layers drop, as an expression. */
  readonly training: string;
  readonly isDetached: boolean;
  /** Says that PyTorch's code cannot do this. */
  refuse(why: string): never;
}

/** A tuple of Python, which has all outputs of an operation. */
export interface Outputs {
  readonly all: Expression;
}

/** Writes an operation: its only used output, which is the first one, or all outputs. */
export type OperationWriter = (parts: OperationParts) => Expression | Outputs;

const DTYPES = { float32: 'torch.float32', int32: 'torch.int64', bool: 'torch.bool' } as const;

/** Returns the type of a tensor in PyTorch's code, in which integers have 64 bits. */
export function torchDtype(dtype: TracedValue['dtype']): string {
  return DTYPES[dtype];
}

const unary =
  (name: string): OperationWriter =>
  (parts) =>
    call(name, parts.tensor('x').text);

const between =
  (operator: string, binding: number): OperationWriter =>
  (parts) =>
    binary(parts.operand('a'), operator, parts.operand('b'), binding);

const pairwise =
  (name: string): OperationWriter =>
  (parts) =>
    call(name, parts.tensor('a').text, parts.tensor('b').text);

const reduction =
  (name: string): OperationWriter =>
  (parts) => {
    const axis = axesText(parts, parts.attr('axis') ?? parts.attr('reductionIndices'));
    const keeps = parts.attr('keepDims') === true ? ['keepdim=True'] : [];
    return method(parts.tensor('x'), name, ...(axis === null ? [] : [`dim=${axis}`, ...keeps]));
  };

/** Returns the dims of a reduction; null: all of them. */
function axesText(parts: OperationParts, axis: Attribute): string | null {
  const axes = axis === null || axis === undefined ? [] : ([axis].flat() as readonly number[]); // dims do not depend on the batch
  const { length } = parts.value('x').shape;
  const isAll = axes.length === 0 || (axes.length === length && parts.outputs[0]?.shape.length === 0);
  if (isAll && parts.attr('keepDims') !== true) return null;
  const [only = 0] = axes;
  return axes.length === 1
    ? `${only}`
    : tupleOf((axes.length === 0 ? Array.from({ length }, (_, i) => i) : axes).map(String));
}

/** torch has no mean of integers and booleans, and tfjs's is a float. */
const mean: OperationWriter = (parts) => {
  if (parts.value('x').dtype === 'float32') return reduction('mean')(parts);
  const made = reduction('mean')({ ...parts, tensor: (name) => method(parts.tensor(name), 'float') });
  return parts.outputs[0]?.dtype === 'int32' && !('all' in made) ? method(made, 'long') : made;
};

const argument =
  (name: string): OperationWriter =>
  (parts) =>
    method(parts.tensor('x'), name, `dim=${parts.number(parts.attr('axis') as TracedNumber)}`); // a dim is a number

/** Returns the extents of the result as arguments; a scalar's are an empty tuple, because torch demands a shape. */
function shapeText(parts: OperationParts): string {
  return (parts.outputs[0]?.shape ?? []).map((extent) => parts.number(extent)).join(', ') || '()';
}

/** Returns a shape for reshape: the only extent that depends on the batch becomes -1. */
function reshapeText(parts: OperationParts): string {
  const shape = parts.outputs[0]?.shape ?? [];
  const moving = shape.filter((extent) => typeof extent !== 'number');
  const isFree = moving.length === 1 && !shape.includes(0);
  const extents = shape.map((extent) => (isFree && typeof extent !== 'number' ? '-1' : parts.number(extent)));
  return extents.join(', ') || '()';
}

const reshape: OperationWriter = (parts) => {
  const { shape } = parts.value('x');
  const to = parts.outputs[0]?.shape ?? [];
  if (JSON.stringify(shape) === JSON.stringify(to)) return parts.tensor('x');
  if (to.length === 1) return method(parts.tensor('x'), 'flatten');
  const added = to.findIndex(
    (extent, i) => extent === 1 && JSON.stringify(to.toSpliced(i, 1)) === JSON.stringify(shape),
  );
  if (added >= 0) return method(parts.tensor('x'), 'unsqueeze', `${added}`);
  const removed = shape.findIndex(
    (extent, i) => extent === 1 && JSON.stringify(shape.toSpliced(i, 1)) === JSON.stringify(to),
  );
  if (removed >= 0) return method(parts.tensor('x'), 'squeeze', `${removed}`);
  const x = parts.tensor('x');
  // The shape between two reshapes does not matter.
  const inner = x.binding === BINDING.whole ? x.text.replace(/\.reshape\([^()]*\)$/, '') : x.text;
  return method(inner === x.text ? x : whole(inner), 'reshape', reshapeText(parts));
};

/** Swaps two dims; swapped twice, they are as before. */
function swapped(x: Expression, dims: string): Expression {
  const suffix = `.transpose(${dims})`;
  const isSwapped = x.binding === BINDING.whole && x.text.endsWith(suffix);
  return isSwapped ? whole(x.text.slice(0, -suffix.length)) : method(x, 'transpose', dims);
}

const transpose: OperationWriter = (parts) => {
  const perm = parts.attr('perm') as readonly number[]; // a permutation of dims
  const moved = perm.flatMap((from, to) => (from === to ? [] : [to]));
  if (moved.length === 0) return parts.tensor('x');
  if (moved.length === 2) return swapped(parts.tensor('x'), moved.join(', '));
  return method(parts.tensor('x'), 'permute', perm.join(', '));
};

const slice: OperationWriter = (parts) => {
  const { shape } = parts.value('x');
  const begin = parts.attr('begin') as readonly TracedNumber[]; // a slice's begin is a list of numbers
  const sizes = parts.outputs[0]?.shape ?? [];
  const ranges = shape.map((extent, dim) => {
    const [from = 0, size = 0] = [begin[dim], sizes[dim]];
    if (JSON.stringify(size) === JSON.stringify(extent)) return ':';
    const start = from === 0 ? '' : parts.number(from);
    if (typeof from === 'number' && typeof size === 'number')
      return `${start}:${from + size === extent ? '' : from + size}`;
    const isToEnd =
      typeof extent === 'object' &&
      typeof size === 'object' &&
      typeof from === 'number' &&
      isLess(extent, size, from);
    if (isToEnd) return `${start}:`;
    return from === 0 ? `:${parts.number(size)}` : `${start}:${start} + ${parts.number(size)}`;
  });
  const last = ranges.findLastIndex((range) => range !== ':');
  return whole(
    `${within(parts.tensor('x'), BINDING.whole)}[${ranges.slice(0, last + 1).join(', ') || '...'}]`,
  );
};

/** Whether a size is an extent without the first `from` elements. */
function isLess(
  extent: Exclude<TracedNumber, number>,
  size: Exclude<TracedNumber, number>,
  from: number,
): boolean {
  return (
    JSON.stringify({ ...extent, offset: 0 }) === JSON.stringify({ ...size, offset: 0 }) &&
    extent.offset - size.offset === from
  );
}

const listOf = (parts: OperationParts): string =>
  tupleOf(parts.inputNames.map((name) => parts.tensor(name).text));

const split: OperationWriter = (parts) => {
  const axis = parts.number(parts.attr('axis') as TracedNumber); // a dim is a number
  const at = Number(axis) < 0 ? Number(axis) + parts.value('x').shape.length : Number(axis);
  const sizes = parts.outputs.map(({ shape }) => parts.number(shape[at] ?? 1));
  const isEven = new Set(sizes).size === 1;
  const all = isEven
    ? method(parts.tensor('x'), 'chunk', `${sizes.length}`, `dim=${axis}`)
    : method(parts.tensor('x'), 'split', `[${sizes.join(', ')}]`, `dim=${axis}`);
  return { all };
};

const gather: OperationWriter = (parts) => {
  const axisAttribute = Number(parts.attr('axis') ?? 0);
  const axis = axisAttribute < 0 ? axisAttribute + parts.value('x').shape.length : axisAttribute;
  if (Number(parts.attr('batchDims') ?? 0) !== 0) parts.refuse('tf.gather with batchDims');
  return whole(
    `${within(parts.tensor('x'), BINDING.whole)}[${':, '.repeat(axis)}${parts.tensor('indices').text}]`,
  );
};

const cast: OperationWriter = (parts) => {
  const names = { float32: 'float', int32: 'long', bool: 'bool' } as const;
  const dtype = parts.outputs[0]?.dtype ?? 'float32';
  return parts.value('x').dtype === dtype ? parts.tensor('x') : method(parts.tensor('x'), names[dtype]);
};

const oneHot: OperationWriter = (parts) => {
  if ((parts.attr('onValue') ?? 1) !== 1 || (parts.attr('offValue') ?? 0) !== 0)
    parts.refuse('tf.oneHot with other values than 0 and 1');
  const hot = call(
    'F.one_hot',
    parts.tensor('indices').text,
    parts.number(parts.attr('depth') as TracedNumber),
  ); // a number of classes
  return parts.outputs[0]?.dtype === 'float32' ? method(hot, 'float') : hot;
};

const pad: OperationWriter = (parts) => {
  const paddings = parts.attr('paddings') as readonly (readonly TracedNumber[])[]; // two numbers per dim
  const sides = paddings.toReversed().flatMap((pair) => pair.map((amount) => parts.number(amount)));
  const isZero = (parts.attr('constantValue') ?? 0) === 0;
  return call(
    'F.pad',
    parts.tensor('x').text,
    tupleOf(sides),
    ...(isZero ? [] : [`value=${parts.scalar('constantValue')}`]),
  );
};

/** The bounds of integers are integers: torch makes floats of them otherwise, which cannot be indices. */
const clip: OperationWriter = (parts) => {
  const { dtype } = parts.value('x');
  const bound = (name: string, none: number): string =>
    parts.attr(name) === none ? 'None' : parts.scalar(name, dtype);
  const [least, most] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  return method(parts.tensor('x'), 'clamp', bound('clipValueMin', least), bound('clipValueMax', most));
};

const cumulative: OperationWriter = (parts) => {
  const axis = `${parts.attr('axis') ?? 0}`;
  const x = parts.named('x');
  const isReverse = parts.attr('reverse') === true;
  const forward = isReverse ? method(x, 'flip', axis) : x;
  const sum = method(forward, 'cumsum', axis);
  const inOrder = isReverse ? method(sum, 'flip', axis) : sum;
  return parts.attr('exclusive') === true ? binary(inOrder, '-', x, BINDING.sum) : inOrder;
};

const matmul: OperationWriter = (parts) => {
  const side = (name: 'a' | 'b', flag: string): Expression => {
    const tensor = parts.tensor(name);
    return parts.attr(flag) === true ? whole(`${within(tensor, BINDING.whole)}.mT`) : tensor;
  };
  return binary(side('a', 'transposeA'), '@', side('b', 'transposeB'), BINDING.product);
};

/** Returns the arguments of a window that differ from torch's defaults. */
function windowText(parts: OperationParts, usualStride: Attribute = 1): readonly string[] {
  const single = (value: Attribute): Attribute =>
    Array.isArray(value) && new Set(value).size === 1 ? (value[0] as Attribute) : value;
  const [top = 0, bottom = 0, left = 0, right = 0] = parts.attr('padding') as readonly number[]; // four numbers
  if (top !== bottom || left !== right) parts.refuse("padding 'same' with an even window");
  const settings: readonly (readonly [string, Attribute, Attribute])[] = [
    ['stride', single(parts.attr('strides')), single(usualStride)],
    ['padding', single([top, left]), 0],
    ['dilation', single(parts.attr('dilations')), 1],
    ['groups', parts.attr('groups') ?? 1, 1],
    ['ceil_mode', parts.attr('ceilMode') ?? false, false],
  ];
  return settings.flatMap(
    ([name, value, usual]) =>
      JSON.stringify(value) === JSON.stringify(usual)
        ? []
        : [`${name}=${pythonValue(value as number | readonly number[])}`], // numbers and flags
  );
}

const attended: OperationWriter = (parts) => {
  const heads = (name: string): Expression => swapped(parts.tensor(name), '1, 2');
  const isCausal = parts.attr('causal') === true;
  const [q, k] = [parts.value('q').shape, parts.value('k').shape];
  if (isCausal && JSON.stringify(q[1]) !== JSON.stringify(k[1]))
    parts.refuse('causal attention to more keys than queries');
  const mixed = call(
    'F.scaled_dot_product_attention',
    ...['q', 'k', 'v'].map((name) => heads(name).text),
    ...(isCausal ? ['is_causal=True'] : []),
    `scale=${parts.scalar('scale')}`,
    ...(JSON.stringify(q[2]) === JSON.stringify(k[2]) ? [] : ['enable_gqa=True']),
  );
  return method(mixed, 'transpose', '1, 2');
};

const dropout: OperationWriter = (parts) => {
  if (parts.attr('period') !== 1) parts.refuse('dropout of groups of elements; use nn.Dropout2d');
  return call('F.dropout', parts.tensor('x').text, parts.scalar('rate'), parts.training);
};

/** How each operation of a traced program is written in PyTorch. An operation that is not here is refused. */
export const OPERATIONS: Readonly<Record<string, OperationWriter>> = {
  ...Object.fromEntries(
    Object.entries({
      ...{ Relu: 'F.relu', Relu6: 'F.relu6', Elu: 'F.elu', Selu: 'F.selu', Softplus: 'F.softplus' },
      ...{
        Sigmoid: 'torch.sigmoid',
        Tanh: 'torch.tanh',
        Exp: 'torch.exp',
        Expm1: 'torch.expm1',
        Log: 'torch.log',
      },
      ...{
        Log1p: 'torch.log1p',
        Sqrt: 'torch.sqrt',
        Rsqrt: 'torch.rsqrt',
        Square: 'torch.square',
        Abs: 'torch.abs',
      },
      ...{
        Sin: 'torch.sin',
        Cos: 'torch.cos',
        Tan: 'torch.tan',
        Asin: 'torch.asin',
        Acos: 'torch.acos',
        Atan: 'torch.atan',
      },
      ...{
        Sinh: 'torch.sinh',
        Cosh: 'torch.cosh',
        Floor: 'torch.floor',
        Ceil: 'torch.ceil',
        Round: 'torch.round',
      },
      ...{
        Sign: 'torch.sign',
        Erf: 'torch.erf',
        Reciprocal: 'torch.reciprocal',
        IsNan: 'torch.isnan',
        IsInf: 'torch.isinf',
      },
      ...{
        IsFinite: 'torch.isfinite',
        LogicalNot: 'torch.logical_not',
        ZerosLike: 'torch.zeros_like',
        OnesLike: 'torch.ones_like',
      },
    }).map(([name, torch]) => [name, unary(torch)]),
  ),
  Neg: (parts) => ({ text: `-${within(parts.tensor('x'), BINDING.whole)}`, binding: BINDING.sign }),
  Identity: (parts) => (parts.isDetached ? method(parts.tensor('x'), 'detach') : parts.tensor('x')),
  LeakyRelu: (parts) => call('F.leaky_relu', parts.tensor('x').text, parts.scalar('alpha')),
  Prelu: (parts) => {
    const x = parts.named('x');
    const scaled = binary(parts.operand('alpha'), '*', x, BINDING.product);
    return call('torch.where', binary(x, '<', whole('0'), BINDING.comparison).text, scaled.text, x.text);
  },
  Add: between('+', BINDING.sum),
  Sub: between('-', BINDING.sum),
  Multiply: between('*', BINDING.product),
  RealDiv: between('/', BINDING.product),
  FloorDiv: between('//', BINDING.product),
  Mod: pairwise('torch.remainder'),
  Pow: (parts) => call('torch.pow', parts.tensor('a').text, parts.operand('b').text),
  Maximum: pairwise('torch.maximum'),
  Minimum: pairwise('torch.minimum'),
  SquaredDifference: (parts) =>
    call('torch.square', binary(parts.operand('a'), '-', parts.operand('b'), BINDING.sum).text),
  Equal: between('==', BINDING.comparison),
  NotEqual: between('!=', BINDING.comparison),
  Greater: between('>', BINDING.comparison),
  GreaterEqual: between('>=', BINDING.comparison),
  Less: between('<', BINDING.comparison),
  LessEqual: between('<=', BINDING.comparison),
  LogicalAnd: pairwise('torch.logical_and'),
  LogicalOr: pairwise('torch.logical_or'),
  AddN: (parts) =>
    parts.inputNames
      .map((name) => parts.tensor(name))
      .reduce((sum, next) => binary(sum, '+', next, BINDING.sum)),
  Select: (parts) => call('torch.where', ...['condition', 't', 'e'].map((name) => parts.tensor(name).text)),
  Sum: reduction('sum'),
  Mean: mean,
  Max: reduction('amax'),
  Min: reduction('amin'),
  Prod: reduction('prod'),
  All: reduction('all'),
  Any: reduction('any'),
  ArgMax: argument('argmax'),
  ArgMin: argument('argmin'),
  BatchMatMul: matmul,
  Reshape: reshape,
  ExpandDims: (parts) =>
    reshape({ ...parts, value: () => parts.value('input'), tensor: () => parts.tensor('input') }),
  Transpose: transpose,
  Slice: slice,
  Concat: (parts) => call('torch.cat', listOf(parts), `dim=${parts.attr('axis') ?? 0}`),
  Pack: (parts) => call('torch.stack', listOf(parts), `dim=${parts.attr('axis') ?? 0}`),
  Unpack: (parts) => ({ all: method(parts.tensor('value'), 'unbind', `${parts.attr('axis') ?? 0}`) }),
  SplitV: split,
  Tile: (parts) =>
    method(
      parts.tensor('x'),
      'repeat',
      (parts.attr('reps') as readonly TracedNumber[]).map((reps) => parts.number(reps)).join(', '),
    ), // numbers
  BroadcastTo: (parts) => method(parts.tensor('x'), 'expand', shapeText(parts)),
  PadV2: pad,
  Reverse: (parts) => {
    const dims = [parts.attr('dims') ?? []].flat() as readonly number[]; // dims are numbers; none: all of them
    const all = parts.value('x').shape.map((_, dim) => dim);
    return method(parts.tensor('x'), 'flip', `${tupleOf((dims.length === 0 ? all : dims).map(String))}`);
  },
  GatherV2: gather,
  GatherNd: (parts) =>
    whole(`${within(parts.tensor('params'), BINDING.whole)}[${parts.tensor('indices').text}.unbind(-1)]`),
  UnsortedSegmentSum: (parts) => {
    const zeros = call('torch.zeros', shapeText(parts), `device=${parts.device}`);
    return method(zeros, 'index_add', '0', parts.tensor('segmentIds').text, parts.tensor('x').text);
  },
  Cast: cast,
  OneHot: oneHot,
  Fill: (parts) => {
    const dtype = parts.outputs[0]?.dtype ?? 'float32';
    return call(
      'torch.full',
      tupleOf((parts.outputs[0]?.shape ?? []).map((extent) => parts.number(extent))),
      parts.scalar('value', dtype),
      `dtype=${torchDtype(dtype)}`,
      `device=${parts.device}`,
    );
  },
  Range: (parts) => {
    const [start, stop, step] = ['start', 'stop', 'step'].map((name) =>
      parts.number(parts.attr(name) as TracedNumber),
    ); // numbers
    const dtype = parts.outputs[0]?.dtype ?? 'float32';
    const bounds = start === '0' && step === '1' ? [`${stop}`] : [`${start}`, `${stop}`, `${step}`];
    return call('torch.arange', ...bounds, `dtype=${torchDtype(dtype)}`, `device=${parts.device}`);
  },
  Cumsum: cumulative,
  TopK: (parts) => ({
    all: call('torch.topk', parts.tensor('x').text, parts.number(parts.attr('k') as TracedNumber)), // a number
  }),
  ClipByValue: clip,
  Softmax: (parts) => call('F.softmax', parts.tensor('logits').text, `dim=${parts.attr('dim') ?? -1}`),
  LogSoftmax: (parts) =>
    call('F.log_softmax', parts.tensor('logits').text, `dim=${parts.attr('axis') ?? -1}`),
  CrossEntropy: (parts) => {
    const ignored = parts.attr('ignoreIndex') === -100 ? [] : [`ignore_index=${parts.attr('ignoreIndex')}`];
    return call('F.cross_entropy', parts.tensor('input').text, parts.tensor('target').text, ...ignored);
  },
  ShardlabLinear: (parts) =>
    call('F.linear', ...['x', 'weight', 'bias'].map((name) => parts.tensor(name).text)),
  ShardlabLayerNorm: (parts) => {
    const width = parts.number(parts.value('x').shape.at(-1) ?? 1);
    const rest = ['weight', 'bias'].map((name) => parts.tensor(name).text);
    return call(
      'F.layer_norm',
      parts.tensor('x').text,
      `(${width},)`,
      ...rest,
      `${Number(parts.attr('eps'))}`,
    );
  },
  ShardlabGelu: (parts) =>
    call('F.gelu', parts.tensor('x').text, ...(parts.attr('exact') === true ? [] : ['approximate="tanh"'])),
  ShardlabCausalSoftmax: (parts) =>
    call('causal_softmax', parts.tensor('scores').text, parts.scalar('scale')),
  ShardlabCausalAttention: (parts) =>
    call('causal_attention', parts.tensor('qkv').text, `${parts.attr('heads')}`),
  FlashAttention: attended,
  ShardlabCrossEntropy: (parts) =>
    call('mean_cross_entropy', parts.tensor('logits').text, parts.tensor('labels').text),
  ShardlabEmbedding: (parts) => {
    const padding = parts.attr('paddingIndex');
    const more = typeof padding === 'number' ? [`padding_idx=${padding}`] : [];
    return call('F.embedding', parts.tensor('ids').text, parts.tensor('table').text, ...more);
  },
  ShardlabDropout: dropout,
  ShardlabConv2d: (parts) =>
    call(
      'F.conv2d',
      ...['x', 'filter', ...parts.inputNames.filter((name) => name === 'bias')].map(
        (name) => parts.tensor(name).text,
      ),
      ...windowText(parts),
    ),
  ShardlabMaxPool2d: (parts) => {
    const kernel = parts.attr('kernel') as readonly number[]; // two numbers
    return call('F.max_pool2d', parts.tensor('x').text, pythonValue(kernel), ...windowText(parts, kernel));
  },
};
