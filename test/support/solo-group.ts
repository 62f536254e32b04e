import type * as tf from '../../src/core/tf';
import type { Engine } from '../../src/engine/backend/engine';
import type { PieceList, ProcessGroup, Work } from '../../src/wire/dist/types';

const done = <T>(value: T): Work<T> => ({ done: true, agrees: true, wait: () => value });

/** A group of one in this process, for tests of code around collectives; it copies pieces as a real group does. */
export function soloGroup(engine: Engine): ProcessGroup {
  const unsupported = (): never => {
    throw new Error('a group of one has nobody to talk to');
  };
  return {
    name: 'solo',
    ranks: [0],
    rank: 0,
    size: 1,
    allReduce: (tensor) => done(tensor),
    allReducePieces: () => done(undefined),
    reduceScatterPieces: (inputs, output) => done(move(engine, inputs[0] ?? [], output)),
    allGatherPieces: (input, outputs) => done(move(engine, input, outputs[0] ?? [])),
    allToAllPieces: (inputs, outputs) => done(move(engine, inputs[0] ?? [], outputs[0] ?? [])),
    allGather: (tensor) => done(tensor.clone()),
    reduceScatter: (tensor) => done(tensor.clone()),
    allToAll: (tensor) => done(tensor.clone()),
    broadcast: (tensor) => done(tensor),
    reduce: (tensor) => done(tensor),
    gatherPieces: (input, outputs) => done(move(engine, input, outputs[0] ?? [])),
    scatterPieces: (inputs, output) => done(move(engine, inputs[0] ?? [], output)),
    send: unsupported,
    recv: unsupported,
    barrier: () => done(undefined),
    subgroup: () => null,
    ordinal: () => 0,
    nodeLevels: () => null,
    alone: () => soloGroup(engine),
    destroy: () => undefined,
  };
}

function move(engine: Engine, from: PieceList, to: PieceList): void {
  const values = from.flatMap((piece) => {
    return 'padding' in piece ? new Array<number>(piece.padding).fill(0) : [...part(engine, piece)];
  });
  let next = 0;
  for (const piece of to) {
    const length = 'padding' in piece ? piece.padding : piece.length;
    if (!('padding' in piece)) part(engine, piece).set(values.slice(next, next + length));
    next += length;
  }
}

interface TensorPiece {
  readonly tensor: tf.Tensor;
  readonly offset: number;
  readonly length: number;
}

function part(engine: Engine, { tensor, offset, length }: TensorPiece): Float32Array {
  const bytes = engine.storage(tensor).view();
  return new Float32Array(bytes.buffer, bytes.byteOffset + 4 * offset, length);
}
