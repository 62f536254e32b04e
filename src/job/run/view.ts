import type { TrainConfig } from '../../config/train-config';
import type { RunView } from '../../figures/run-view';
import { forecastRun, type RunForecast } from '../../plan/dry-run/forecast';

/** A run as figures see it, with what a dry run of its config predicts. */
export function viewOf(
  run: Omit<RunView, 'strategy' | 'forecast'> & { readonly config: TrainConfig },
): RunView {
  const { config, world, records, totals, note } = run;
  let known: RunForecast | null | undefined;
  return {
    strategy: config.parallel.strategy,
    world,
    records,
    forecast() {
      if (known === undefined) known = forecastRun(config, world);
      return known;
    },
    ...(totals === undefined ? {} : { totals }),
    ...(note === undefined ? {} : { note }),
  };
}
