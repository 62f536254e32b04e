import type { Engine } from '../../backend/engine';
import type { Bytes, Seconds } from '../../core/units';
import { memoryAtPeak } from '../../ledger/memory';
import type { Recorder } from '../../ledger/recorder';
import type { Trainer } from '../../train/trainer';

/** What a rank needed for a config. */
export interface ProbeResult {
  /** Most bytes on the device, with what others hold there. */
  readonly peakBytes: Bytes;
  /** Of them, shards and optimizer states. */
  readonly shardBytes: Bytes;
  /** Of the second step: the first one warms up. */
  readonly stepSeconds: Seconds;
}

interface Probe {
  readonly engine: Engine;
  readonly recorder: Recorder;
  readonly build: () => Trainer;
}

/**
 * Builds a trainer, makes two steps without the memoryLimit, and measures; nothing of it stays. Where that fails, whoever
 * recovers the rank disposes what `build` gave.
 */
export function probeOnRank({ engine, recorder, build }: Probe): ProbeResult {
  return engine.withoutLimit(() => {
    recorder.beginStep(0);
    const trainer = build();
    trainer.step();
    const { seconds } = trainer.step();
    const record = recorder.endStep({ curve: false });
    trainer.dispose();
    const { peakBytes, elsewhereBytes } = record.memory;
    const causes = memoryAtPeak(record);
    const shardBytes = causes['param.shard'] + causes['grad.shard'] + causes.optimizer;
    return { peakBytes: peakBytes + elsewhereBytes, shardBytes, stepSeconds: seconds };
  });
}
