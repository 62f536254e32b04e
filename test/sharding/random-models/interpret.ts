import type { Tensor } from '@tensorflow/tfjs';
import type { RankScope } from '../../../src/launch/rank/scope';
import type { Module } from '../../../src/nn/module';
import type { Parameter } from '../../../src/nn/parameter';
import type { BlockSpec, RandomModel } from './description';

// Only types are imported: a rank runs this code with the names of its own scope, as a cell does.

type Scope = Pick<RankScope, 'nn' | 'tf'>;
type Layer = Module & { apply(...inputs: unknown[]): unknown };

/** A model made of a description. */
export interface Interpreted {
  readonly model: Module;
  readonly blocks: readonly Layer[];
  /** Applies blocks to an input, one after another. */
  run(x: Tensor, second: Tensor | null): Tensor;
}

/** Element i is size times a hash of i and number, less a half: as in test/data/layer_reference.py. */
export function scattered(count: number, number: number, size = 1): Float32Array {
  return Float32Array.from({ length: count }, (_, i) => {
    const first = Math.imul(i * 7919 + number * 104729 + 17, 2654435761) >>> 0;
    const second = Math.imul(first ^ (first >>> 15), 2654435761) >>> 0;
    return size * (second / 2 ** 32 - 0.5);
  });
}

/** Makes the model of a description, with its values. */
export function interpreted(scope: Scope, spec: RandomModel): Interpreted {
  const { nn, tf } = scope;
  class Block extends nn.Module {
    readonly spec: BlockSpec;
    constructor(own: BlockSpec) {
      super();
      this.spec = own;
      Object.assign(this, partsOf(scope, own));
    }
    forward(x: Tensor, second: Tensor | null): Tensor {
      const part = (name: string): Layer => Reflect.get(this, name) as Layer; // `partsOf` has made it
      const y = outputOf(scope, this.spec, part, x, second);
      return this.spec.residual === true ? tf.add(x, y) : y;
    }
  }
  class Model extends nn.Module {
    readonly blocks = new nn.ModuleList(spec.blocks.map((own) => new Block(own)));
    forward(x: Tensor, second: Tensor | null): Tensor {
      return spec.order.reduce((y, index) => (this.blocks.at(index) as Block).apply(y, second), x);
    }
  }
  const model = new Model();
  const blocks = [...model.blocks] as Layer[];
  for (const [target, source] of spec.tied) {
    const at = (path: string) => model.modules().find((module) => module.path === path);
    Object.assign(at(target) ?? {}, { weight: Reflect.get(at(source) ?? {}, 'weight') });
  }
  fill(scope, model);
  const run = (x: Tensor, second: Tensor | null): Tensor =>
    spec.apart
      ? spec.order.reduce((y, index) => blocks[index]?.apply(y, second) as Tensor, x)
      : model.apply(x, second);
  return { model, blocks, run };
}

/** The modules and parameters of a block, by name. */
function partsOf({ nn, tf }: Scope, spec: BlockSpec): Record<string, Module | Parameter> {
  const { kind, width, mid, out } = spec;
  const linear = (inputs: number, outputs: number, bias = true) => new nn.Linear(inputs, outputs, { bias });
  switch (kind) {
    case 'linear':
      return {
        fc: linear(width, out, spec.bias),
        ...(spec.spare ? { spare: linear(width, width) } : {}),
      };
    case 'mlp':
      return { up: linear(width, mid), down: linear(mid, width) };
    case 'gated':
      return { up: linear(width, mid), down: linear(mid, width), gate: linear(width, mid, false) };
    case 'sequence':
      return {
        ...{ up: linear(width, mid), down: linear(mid, width) },
        ...{ into: linear(width, width), norm: new nn.LayerNorm(width) },
      };
    case 'attention':
      return {
        norm: new nn.LayerNorm(width),
        ...{ q: linear(width, width), k: linear(width, width, false), v: linear(width, width) },
        o: linear(width, width),
      };
    case 'multihead':
      return { attention: new nn.MultiheadAttention(width, spec.heads, { batchFirst: true }) };
    case 'recurrent': {
      const options = { numLayers: spec.layers, batchFirst: true, bidirectional: spec.both };
      return { cell: new nn[spec.cell](width, out / (spec.both ? 2 : 1), options) };
    }
    case 'norm':
      return {
        norm: spec.norm === 'GroupNorm' ? new nn.GroupNorm(spec.groups, width) : new nn[spec.norm](width),
      };
    case 'conv':
      return { conv: new nn.Conv2d(width, out, 3, { stride: spec.stride, padding: 1 }) };
    case 'own':
      return { scale: new nn.Parameter(tf.zeros([width])), shift: new nn.Parameter(tf.zeros([width])) };
    case 'embedding':
      return { table: new nn.Embedding(spec.rows, width) };
    case 'merge':
      return { fc: linear(spec.second, width) };
    case 'drop':
      return { drop: new nn.Dropout(0.5) };
    default:
      return {};
  }
}

function outputOf(
  scope: Scope,
  spec: BlockSpec,
  part: (name: string) => Layer,
  x: Tensor,
  second: Tensor | null,
): Tensor {
  const { nn, tf } = scope;
  const of = (name: string, input: Tensor): Tensor => part(name).apply(input) as Tensor;
  const act = (y: Tensor): Tensor => (spec.act === null ? y : nn.functional[spec.act](y));
  switch (spec.kind) {
    case 'linear':
      return act(of('fc', x));
    case 'mlp':
      return of('down', act(of('up', x)));
    case 'gated':
      return of('down', tf.mul(act(of('gate', x)), of('up', x)));
    case 'sequence':
      return of('down', act(of('up', of('norm', of('into', x)))));
    case 'attention':
      return attended(scope, spec, of, of('norm', x));
    case 'multihead':
      return (part('attention').apply(x, x, x, { needWeights: false }) as [Tensor, null])[0];
    case 'recurrent':
      return (part('cell').apply(x) as [Tensor, unknown])[0];
    case 'norm':
      return of('norm', x);
    case 'conv': {
      const y = act(of('conv', x));
      if (spec.pool === null) return y;
      return spec.pool === 'max' ? nn.functional.maxPool2d(y, 2) : nn.functional.avgPool2d(y, 2);
    }
    case 'own': {
      const parameter = (name: string): Tensor => (part(name) as unknown as Parameter).tensor as Tensor;
      return tf.add(tf.mul(x, parameter('scale')), parameter('shift'));
    }
    case 'embedding':
      return of('table', x);
    case 'merge': {
      const h = act(of('fc', second ?? x));
      return tf.add(x, x.rank === 2 ? h : tf.expandDims(h, 1));
    }
    case 'drop':
      return of('drop', x);
    case 'mean':
      return tf.mean(x, spec.of === 'sequence' ? [1] : [2, 3]);
    default:
      throw new Error(`no block ${spec.kind}`);
  }
}

/** Attention of the heads that this rank has. */
function attended(
  { nn, tf }: Scope,
  { width, heads, causal }: BlockSpec,
  of: (name: string, input: Tensor) => Tensor,
  x: Tensor,
): Tensor {
  const [rows = 0, positions = 0] = x.shape;
  const headsOf = (name: string): Tensor =>
    tf.transpose(tf.reshape(of(name, x), [rows, positions, -1, width / heads]), [0, 2, 1, 3]);
  const [q, k, v] = ['q', 'k', 'v'].map(headsOf) as [Tensor, Tensor, Tensor];
  const y = nn.functional.scaledDotProductAttention(q, k, v, { isCausal: causal });
  return of('o', tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [rows, positions, -1]));
}

function fill({ tf }: Scope, model: Module): void {
  const named = model.namedParameters();
  for (const [place, name] of [...named.keys()].sort().entries()) {
    const base = name.includes('.norm.') && name.endsWith('weight') ? 1 : 0;
    named.get(name)?.defer({
      fill: (start, target) => {
        target.set(
          scattered(start + target.length, place)
            .subarray(start)
            .map((value) => value + base),
        );
      },
    });
  }
  for (const [name, buffer] of model.namedBuffers()) {
    if (!/running_(mean|var)$/.test(name)) continue;
    const values = scattered(buffer.size, 7).map((value) => value + (name.endsWith('var') ? 1 : 0));
    buffer.assign(tf.tensor(values, [...buffer.shape]));
  }
}
