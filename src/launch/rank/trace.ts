import { dataPlaceOf, type TrainConfig } from '../../config';
import type { Engine } from '../../engine';
import { type StoredTrace, traceAndStore } from '../../training';
import type { ProcessGroup } from '../../wire';
import type { RankWork } from '../control/messages';
import { makeOwn, type OwnPlace } from './own-parts';

/**
 * Traces the user's model on rank 0, and stores batches: each rank those of the data-parallel ranks whose number, modulo the number of
 * ranks, is its own. The model is a new one, because the run's own model may be sharded.
 */
export async function traceOnRank(
  {
    config: checkedConfig,
    data,
    own: sources,
    folder,
    dataRanks,
    batches,
  }: RankWork & { readonly kind: 'trace' },
  group: ProcessGroup,
  parts: Omit<OwnPlace, 'config' | 'run' | 'group'> & {
    readonly engine: Engine;
  },
): Promise<readonly StoredTrace[]> {
  const config = checkedConfig as TrainConfig; // the launcher has checked it, and has the same version
  const { engine } = parts;
  const { rank } = dataPlaceOf(config, group.rank, group.size);
  const stored: StoredTrace[] = [];
  for (let dataRank = rank; dataRank < dataRanks; dataRank += group.size) {
    const place = { ...parts, config, run: 0, group, worldSize: dataRanks };
    const own = await makeOwn(sources, { ...place, scope: { ...parts.scope, rank: dataRank } });
    const training = { engine, config, own, data: { world: dataRanks, prepared: data } };
    try {
      stored.push(traceAndStore(training, dataRank, batches, folder));
    } finally {
      own.model?.dispose();
    }
  }
  return stored;
}
