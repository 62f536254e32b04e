import type { Engine } from '../../../src/engine/backend/engine';
import type { PieceList, ProcessGroup, Work } from '../../../src/wire/dist/types';

/** A defect that the parity suite must find. */
export type Mutation = 'sumForMean' | 'missedShard' | 'doubleCount' | 'missedGather';

/** The group, and groups made of it, with a defect in one collective; all others are unchanged. */
export function mutated(group: ProcessGroup, engine: Engine, mutation: Mutation): ProcessGroup {
  const defect = DEFECTS[mutation](group, engine);
  return new Proxy(group, {
    get(target, key) {
      const own: unknown = Reflect.get(defect, key);
      if (own !== undefined) return own;
      if (key === 'subgroup') {
        return (...args: Parameters<ProcessGroup['subgroup']>) => {
          const made = target.subgroup(...args);
          return made === null ? null : mutated(made, engine, mutation);
        };
      }
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

type Defect = Partial<Pick<ProcessGroup, 'reduceScatterPieces' | 'allReducePieces' | 'allGatherPieces'>>;

const DEFECTS: Record<Mutation, (group: ProcessGroup, engine: Engine) => Defect> = {
  sumForMean: (group) => ({
    reduceScatterPieces: (inputs, output, _op, options) =>
      group.reduceScatterPieces(inputs, output, 'sum', options),
    allReducePieces: (pieces, _op, options) => group.allReducePieces(pieces, 'sum', options),
  }),

  /** Rank 1 drops the received values. */
  missedShard: (group, engine) => ({
    reduceScatterPieces(inputs, output, op, options) {
      return after(group.reduceScatterPieces(inputs, output, op, options), () => {
        if (group.rank === 1) zero(engine, output);
      });
    },
    allReducePieces(pieces, op, options) {
      return after(group.allReducePieces(pieces, op, options), () => {
        if (group.rank === 1) zero(engine, pieces);
      });
    },
  }),

  /** Rank 1 drops the gathered values. */
  missedGather: (group, engine) => ({
    allGatherPieces(input, outputs, options) {
      return after(group.allGatherPieces(input, outputs, options), () => {
        if (group.rank === 1) zero(engine, outputs[0] ?? []);
      });
    },
  }),

  /** Rank 0's gradients count twice. */
  doubleCount: (group, engine) => ({
    reduceScatterPieces(inputs, output, op, options) {
      if (group.rank === 0) double(engine, inputs.flat());
      return group.reduceScatterPieces(inputs, output, op, options);
    },
    allReducePieces(pieces, op, options) {
      if (group.rank === 0) double(engine, pieces);
      return group.allReducePieces(pieces, op, options);
    },
  }),
};

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

function double(engine: Engine, pieces: PieceList): void {
  const tensors = new Set(pieces.flatMap((piece) => ('padding' in piece ? [] : [piece.tensor])));
  for (const tensor of tensors) engine.scale(tensor, 2);
}

function zero(engine: Engine, pieces: PieceList): void {
  for (const piece of pieces) if (!('padding' in piece)) engine.fill(piece.tensor, 0);
}
