import type { HalfDType } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../../engine';
import {
  contentsOf,
  contentsOfOne,
  copyElements,
  disposeSpan,
  type Parameter,
  type Span,
  wholeTensor,
  writeValues,
  zerosIn,
} from '../../nn';
import type { ProcessGroup } from '../../wire';
import { chunkOf, type ShardedParameter, type ShardLayout } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/** The parts of a unit's spec that initial values depend on. */
type FirstValues = Pick<UnitSpec, 'engine' | 'module' | 'syncGroup'>;

/** Elements per broadcast of rank 0; small, because no rank needs a whole sharded parameter. */
const SYNC_ELEMENTS = 2 ** 18;

/** Makes the tensors of parameters that stay whole, with their initial values. */
export function firstWholes(
  { engine, syncGroup }: FirstValues,
  parameters: readonly Parameter[],
  half: HalfDType | null,
): tf.Tensor[] {
  return parameters.map((parameter, i) => {
    const tensor = wholeTensor(engine, parameter, half ?? undefined);
    const contents = contentsOfOne(parameters, i);
    syncGroup?.broadcast(tensor, 0, { cause: 'param', module: parameter.module, contents }).wait();
    return tensor;
  });
}

/** Makes this rank's flat shard; padding is 0. If a parameter is deferred, only this rank's chunk of it is initialised. */
export function firstShard(first: FirstValues, layout: ShardLayout, rank: number, onHost: boolean): Span {
  const { engine, module, syncGroup } = first;
  for (const { parameter } of layout.entries) if (parameter.isWhole) wholeTensor(engine, parameter);
  const shard = zerosIn(onHost ? 'host' : 'device', engine, layout.size, { cause: 'param.shard', module });
  try {
    for (const entry of layout.entries) {
      const target = { ...shard, offset: entry.offset };
      if (syncGroup === null) writeValues(engine, entry.parameter, chunkOf(entry, rank), target);
      else syncChunk(engine, syncGroup, entry, rank, target);
    }
  } catch (error) {
    disposeSpan(shard);
    throw error;
  }
  return shard;
}

/** Copies this rank's chunk from broadcasts of rank 0, each at most `SYNC_ELEMENTS` long. */
function syncChunk(
  engine: Engine,
  group: ProcessGroup,
  entry: ShardedParameter,
  rank: number,
  target: Span,
): void {
  const { parameter } = entry;
  const { module, size } = parameter;
  const own = chunkOf(entry, rank);
  const contents = contentsOf(module, [parameter]);
  for (let start = 0; start < size; start += SYNC_ELEMENTS) {
    const length = Math.min(SYNC_ELEMENTS, size - start);
    const piece = { tensor: engine.allocate([length], 'float32', { cause: 'comm', module }), offset: 0 };
    try {
      if (group.rank === 0) writeValues(engine, parameter, { start, length }, piece);
      group.broadcast(piece.tensor, 0, { cause: 'param', module, contents }).wait();
      const from = Math.max(start, own.start);
      const to = Math.min(start + length, own.start + own.length);
      const at = { ...target, offset: target.offset + from - own.start };
      copyElements(engine, { ...piece, offset: from - start }, at, to - from);
    } finally {
      piece.tensor.dispose();
    }
  }
}
