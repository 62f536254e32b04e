import { dataPlaceOf, type TrainConfig } from '../../config';
import { type TracedProgram, writeBatchesOf, writeTrace } from '../../training';
import type { ProcessGroup } from '../../wire';
import type { RankWork } from '../control/messages';
import { makeOwn, type OwnPlace } from './own-parts';

/** What a rank has traced and stored. */
export interface TraceResult {
  /** The program, from rank 0. */
  readonly program: TracedProgram | null;
  /** The number of steps whose batches are stored; null if this rank has stored none. */
  readonly steps: number | null;
}

/**
 * Traces the user's model on rank 0, and stores batches: each rank those of the data-parallel ranks whose number, modulo the number of
 * ranks, is its own. The model is a new one, because the run's own model may be sharded.
 */
export async function traceOnRank(
  { config: given, data, own: sources, folder, dataRanks, batches }: RankWork & { readonly kind: 'trace' },
  group: ProcessGroup,
  parts: Omit<OwnPlace, 'config' | 'run' | 'group'> & {
    readonly engine: Parameters<typeof writeTrace>[0]['engine'];
  },
): Promise<TraceResult> {
  const config = given as TrainConfig; // the launcher has checked it, and has the same version
  const { engine } = parts;
  const { rank } = dataPlaceOf(config, group.rank, group.size);
  let program: TracedProgram | null = null;
  let steps: number | null = null;
  for (let dataRank = rank; dataRank < dataRanks; dataRank += group.size) {
    const place = { ...parts, config, run: 0, group, worldSize: dataRanks };
    const own = await makeOwn(sources, { ...place, scope: { ...parts.scope, rank: dataRank } });
    const training = { engine, config, own, data: { world: dataRanks, prepared: data } };
    try {
      if (dataRank === 0) program = writeTrace(training, folder);
      steps = writeBatchesOf(training, dataRank, batches, folder);
    } finally {
      own.model?.dispose();
    }
  }
  return { program, steps };
}
