import { ConfigError } from '../../core';
import { counted } from '../../figures';
import { checkedFaults, type PlantedFault } from './faults';
import { faultOf, Mystery } from './mystery';

/** The faults of a run, and what its summaries say of them; null if there are none. */
export interface Planted {
  readonly faults: readonly PlantedFault[];
  readonly note: string | null;
}

/** Checks the option `faults` of a training on this number of ranks. Throws: CONFIG, also for faults on PyTorch. */
export function plantedIn(faults: unknown, world: number, isTorch: boolean): Planted {
  const isMystery = faults instanceof Mystery;
  const checked = checkedFaults(isMystery ? [faultOf(faults)] : faults, world);
  if (checked.length === 0) return { faults: checked, note: null };
  if (isTorch)
    throw new ConfigError(
      "faults act in ranks of shardlab's own engine, not in ranks of PyTorch; launch without engine: 'torch'",
    );
  const number = counted(checked.length, 'fault');
  return { faults: checked, note: isMystery ? 'a mystery is planted' : `${number} planted` };
}
