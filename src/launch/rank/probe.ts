import type { Bytes, Seconds } from '../../core';
import type { Engine } from '../../engine';
import { memoryAtPeak, type Recorder } from '../../ledger';
import type { Trainer } from '../../training';

/** A rank's measurements of a config. */
export interface ProbeResult {
  /** The most bytes on the device, including the bytes of other runs and cells. */
  readonly peakBytes: Bytes;
  /** How many of these bytes belong to shards of parameters, shards of gradients, or optimizer states. */
  readonly shardBytes: Bytes;
  /** Time of the second step; the first step is a warm-up. */
  readonly stepSeconds: Seconds;
}

/**
 * Builds a trainer, runs two steps without the `memoryLimit`, measures, and disposes the trainer. If a step fails, the
 * rank's recovery disposes the trainer.
 */
export function probeOnRank(engine: Engine, recorder: Recorder, build: () => Trainer): ProbeResult {
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
