import { profileSteps, timeSteps } from '../../training';
import { benchCollectives, type ProcessGroup } from '../../wire';
import type { Measurement } from '../control/measurement';
import type { RankScope } from './scope';

/** Measures this rank; every rank of the job calls this function. Code is loaded on first use. */
export async function measure(measurement: Measurement, scope: RankScope): Promise<unknown> {
  const { group, engine, rank } = scope;
  switch (measurement.kind) {
    case 'collectives': {
      const first = firstRanks(group, measurement.numRanks);
      return first === null ? [] : benchCollectives(first, engine, measurement.sizes);
    }
    case 'kernels': {
      const { numRanks, isAlone } = measurement;
      const own = isAlone ? aloneOf(group, numRanks)[rank] : firstRanks(group, numRanks);
      return own == null ? [] : profileSteps({ engine, group: own, ...measurement.profile });
    }
    case 'steps': {
      const together = firstRanks(group, measurement.numRanks);
      return together === null ? [] : timeSteps({ engine, group: together, ...measurement.profile });
    }
    case 'maxRss':
      return process.resourceUsage().maxRSS;
    default:
      return measurement satisfies never;
  }
}

/** Returns an entry per rank: for this rank, a group that has only this rank; for other ranks, null. */
function aloneOf(group: ProcessGroup, numRanks: number): readonly (ProcessGroup | null)[] {
  return group.ranks.slice(0, numRanks).map((rank) => group.subgroup([rank], `rank ${rank} alone`));
}

function firstRanks(group: ProcessGroup, numRanks: number): ProcessGroup | null {
  return numRanks === group.size ? group : group.subgroup(group.ranks.slice(0, numRanks), 'measured');
}
