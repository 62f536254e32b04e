import type { Engine } from '../../backend/engine';
import type { HalfDType } from '../../core/dtypes';
import type * as tf from '../../core/tf';
import type { ProcessGroup } from '../../dist/types';
import { wholeTensor, writeValues } from '../../nn/first-values';
import type { Parameter, Span } from '../../nn/parameter';
import { copyElements, disposeSpan, zerosIn } from '../../nn/spans';
import { chunkOf, type ShardedParameter, type ShardLayout } from './shard-layout';
import type { UnitSpec } from './unit-placement';

/** The source of a unit's first values. */
type FirstValues = Pick<UnitSpec, 'engine' | 'module' | 'syncGroup'>;

/** Elements that rank 0 sends at once, because no rank needs a whole sharded parameter. */
const SYNC_ELEMENTS = 2 ** 18;

/** Makes whole tensors of parameters that stay whole. */
export function firstWholes(
  { engine, syncGroup }: FirstValues,
  parameters: readonly Parameter[],
  half: HalfDType | null,
): tf.Tensor[] {
  return parameters.map((parameter) => {
    const tensor = wholeTensor(engine, parameter, half ?? undefined);
    syncGroup?.broadcast(tensor, 0, { cause: 'param', module: parameter.module }).wait();
    return tensor;
  });
}

/** This rank's flat shard of parameters, padding 0. Deferred parameters stay deferred: only the chunks are written. */
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

/** Takes this rank's chunk from rank 0's broadcast, in pieces of bounded size. */
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
  for (let start = 0; start < size; start += SYNC_ELEMENTS) {
    const length = Math.min(SYNC_ELEMENTS, size - start);
    const piece = { tensor: engine.allocate([length], 'float32', { cause: 'comm', module }), offset: 0 };
    try {
      if (group.rank === 0) writeValues(engine, parameter, { start, length }, piece);
      group.broadcast(piece.tensor, 0, { cause: 'param', module }).wait();
      const from = Math.max(start, own.start);
      const to = Math.min(start + length, own.start + own.length);
      const at = { ...target, offset: target.offset + from - own.start };
      copyElements(engine, { ...piece, offset: from - start }, at, to - from);
    } finally {
      piece.tensor.dispose();
    }
  }
}
