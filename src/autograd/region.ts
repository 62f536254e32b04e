import type { Engine } from '../backend/engine';
import type * as tf from '../core/tf';
import { currentRecording } from './current-recording';
import { HeldInputs } from './held-inputs';
import { KeptResults } from './kept-results';
import { type RecordedNode, Recording } from './recording';
import { type Forward, type Region, type RegionCall, recordForward } from './region-call';
import { SecondForward } from './second-forward';
import { Sieve } from './sieve';

/**
 * Runs a region. In `gradients` it keeps its inputs, and results that it is told to keep; elsewhere it is inference.
 * `forward` must be the same computation both times. Source: torch.utils.checkpoint, use_reentrant=False.
 *
 * [Note: checkpointed regions] The first forward runs on a sieve: a recording that finds out which tensors the region
 * depends on, and keeps nothing. Its backward replays forward on a recording below the one around it and runs backward
 * through that at once, on the same gradients: sums are added up in the order of a recording without regions, so
 * gradients are equal to the bit. Between the two, parameters of a unit around may have been freed and gathered into
 * other tensors: gradients change names by the parameter's place in its unit. A unit inside runs its hooks again with the
 * phase 'recompute'. A region inside a region is a plain part of it until the outer one replays.
 * Throws: ENGINE inside tf.grads; in backward, when the second forward is not the first one's equal.
 */
export function runRegion(
  engine: Engine,
  region: Region,
  forward: Forward,
  inputs: readonly tf.Tensor[],
): tf.Tensor {
  const outer = currentRecording(`The checkpointed region '${region.module}'`);
  if (outer === null || outer.sieve !== null) return forward(...inputs);
  const tag = { ...engine.currentTag, cause: 'temp', module: region.module } as const;
  const results = region.keepResultsOf === undefined ? null : new KeptResults(engine, region.keepResultsOf);
  const sieve = new Sieve(results, region.meter ?? null);
  const tape = new Recording(engine, outer, outer.owners, null, sieve);
  if (results !== null) tape.unfinished.add(results);
  try {
    const value = recordForward(
      tape,
      forward,
      inputs,
      inputs.filter((input) => outer.flows(input)),
    );
    results?.settle(value);
    if (tape.flows(value)) {
      outer.addUnit(regionNode({ engine, region, outer, forward, inputs, tag }, tape, sieve, value));
      // The node holds it all from here on.
      tape.unfinished.clear();
    }
    return value;
  } finally {
    tape.release();
  }
}

function regionNode(
  call: RegionCall,
  tape: Recording,
  { surroundings, results }: Sieve,
  value: tf.Tensor,
): RecordedNode {
  const { engine, region, outer, inputs } = call;
  const held = new HeldInputs(call, results);
  tape.unfinished.add(held);
  held.hold(surroundings);
  const flowing = inputs.filter((input) => outer.flows(input)).map(({ id }) => id);
  const first = {
    sources: [...flowing, ...tape.captured.keys()],
    shape: value.shape,
    sumOfSquares: engine.sumOfSquares(value),
  };
  const second = new SecondForward(call, held, first);
  return {
    id: value.id,
    kernelName: `region ${region.module}`,
    inputs: {},
    outputs: [value],
    saved: [],
    release: () => second.release(),
    resume: ([dy], gradients) => {
      if (dy) second.resume(dy, gradients);
    },
  };
}
