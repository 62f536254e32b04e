import { modelShape } from '../../../src/config/settings/model';
import type { TrainConfig } from '../../../src/config/train-config';
import * as tf from '../../../src/core/tf';
import type { Engine } from '../../../src/engine/backend/engine';
import type { StateDict } from '../../../src/nn/load-state';
import { buildModel } from '../../../src/nn/models/build-model';
import type { BatchSource } from '../../../src/training/data/batch';
import { syntheticBatches } from '../../../src/training/data/batches';
import type { ProcessGroup, ReduceOp, Work } from '../../../src/wire/dist/types';

/** A defect that the comparison with one process must find. */
export type CombinationDefect =
  /** Groups of an axis, such as 'tp', take a mean for a sum, and a sum for a mean. */
  | { readonly kind: 'wrongReduction'; readonly axis: string }
  /** Rank 1 reads its first microbatch again in place of the second. */
  | { readonly kind: 'skippedMicrobatch' }
  /** What stages send for microbatch 1 arrives as zeros. */
  | { readonly kind: 'lostMicrobatch' }
  /** Each half of a parameter's rows has the initial values of the other half. */
  | { readonly kind: 'swappedRows'; readonly parameter: string }
  /** Modules of equal shapes have each other's initial values. */
  | { readonly kind: 'swappedModules'; readonly modules: readonly [string, string] }
  /** What arrives at rank 1 in the exchanges of context parallelism has its halves exchanged. */
  | { readonly kind: 'swappedParts' };

/** Returns what a trainer gets in place of its sound parts. */
export function damaged(
  { group, engine }: { readonly group: ProcessGroup; readonly engine: Engine },
  config: TrainConfig,
  defect: CombinationDefect,
): { readonly group?: ProcessGroup; readonly batches?: BatchSource; readonly initialState?: StateDict } {
  switch (defect.kind) {
    case 'wrongReduction':
      return { group: withGroups(group, defect.axis, wrongReductions) };
    case 'lostMicrobatch':
      return { group: withGroups(group, 'pp', (own) => lostMicrobatch(own, engine)) };
    case 'swappedParts':
      return { group: withGroups(group, 'cp', (own) => swappedParts(own, engine)) };
    case 'skippedMicrobatch':
      return { batches: group.rank === 1 ? repeating(config) : batchesOf(config) };
    case 'swappedRows':
      return { initialState: swapped(config, (name) => (name === defect.parameter ? name : null)) };
    case 'swappedModules':
      return { initialState: swapped(config, (name) => otherOf(name, defect.modules)) };
    default:
      return defect satisfies never;
  }
}

type Operations = Partial<ProcessGroup>;

/** A group whose subgroups of an axis have other operations. */
function withGroups(
  group: ProcessGroup,
  axis: string,
  change: (own: ProcessGroup) => Operations,
): ProcessGroup {
  const changed: Operations = group.name.startsWith(`${axis}[`) ? change(group) : {};
  return new Proxy(group, {
    get(target, key) {
      const own: unknown = Reflect.get(changed, key);
      if (own !== undefined) return own;
      if (key === 'subgroup') {
        return (...args: Parameters<ProcessGroup['subgroup']>) => {
          const made = target.subgroup(...args);
          return made === null ? null : withGroups(made, axis, change);
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

function wrongReductions(group: ProcessGroup): Operations {
  const wrong = (op: ReduceOp = 'sum'): ReduceOp => (op === 'sum' ? 'avg' : op === 'avg' ? 'sum' : op);
  return {
    allReduce: (tensor, op, options) => group.allReduce(tensor, wrong(op), options),
    allReducePieces: (pieces, op, options) => group.allReducePieces(pieces, wrong(op), options),
    reduceScatter: (tensor, op, options) => group.reduceScatter(tensor, wrong(op), options),
    reduceScatterPieces: (inputs, output, op, options) =>
      group.reduceScatterPieces(inputs, output, wrong(op), options),
  };
}

function lostMicrobatch(group: ProcessGroup, engine: Engine): Operations {
  return {
    recv: (tensor, source, options) =>
      after(group.recv(tensor, source, options), () => {
        const { cause, detail = '' } = options ?? {};
        if (cause === 'activation' && detail.includes('of microbatch 1 ')) engine.fill(tensor, 0);
      }),
  };
}

function swappedParts(group: ProcessGroup, engine: Engine): Operations {
  const swap = (tensor: tf.Tensor): void => {
    if (group.rank !== 1) return;
    const values = tf.tensor(rotated(tensor.dataSync() as Float32Array), tensor.shape);
    engine.copyInto(tensor, 0, values);
    values.dispose();
  };
  return {
    allToAll(tensor, options) {
      const work = group.allToAll(tensor, options);
      return after(work, () => swap(work.wait()));
    },
    recv: (tensor, source, options) => after(group.recv(tensor, source, options), () => swap(tensor)),
  };
}

function after<T>(work: Work<T>, then: () => void): Work<T> {
  let ran = false;
  return {
    get done() {
      return work.done;
    },
    wait() {
      const result = work.wait();
      if (!ran) then();
      ran = true;
      return result;
    },
  };
}

function batchesOf(config: TrainConfig): BatchSource {
  const shape = modelShape(config);
  if (!('vocab' in shape)) throw new Error('combinations train language models');
  return syntheticBatches({ batch: config.batch, seq: shape.seq, vocab: shape.vocab });
}

function repeating(config: TrainConfig): BatchSource {
  const source = batchesOf(config);
  return { ...source, batch: (rank, index) => source.batch(rank, index === 1 ? 0 : index) };
}

/** Initial values in which a parameter has those of `otherOf(name)`; of the same name: with its halves exchanged. */
function swapped(config: TrainConfig, other: (name: string) => string | null): StateDict {
  const values = new Map(
    [...buildModel(config).namedState()].map(([name, { source, size, shape }]) => {
      const own = new Float32Array(size);
      source?.fill(0, own);
      return [name, { shape, values: own }];
    }),
  );
  return new Map(
    [...values].map(([name, own]) => {
      const from = other(name);
      const taken = from === null ? own : values.get(from);
      if (taken === undefined) throw new Error(`no ${from}`);
      return [
        name,
        from === name ? { ...own, values: rotated(own.values) } : { ...own, values: taken.values },
      ];
    }),
  );
}

function otherOf(name: string, modules: readonly [string, string]): string | null {
  const i = modules.findIndex((module) => name.startsWith(`${module}.`));
  const own = modules[i];
  return own === undefined ? null : `${modules[1 - i]}${name.slice(own.length)}`;
}

/** Exchanges both halves. */
function rotated(values: Float32Array): Float32Array {
  const half = values.length / 2;
  return Float32Array.from(values, (_, i) => values[(i + half) % values.length] ?? Number.NaN);
}
