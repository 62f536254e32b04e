import type { Engine } from '../backend/engine';
import type * as tf from '../core/tf';
import { KeptResults } from './kept-results';
import { currentRecording, type RecordedNode, Recording } from './recording';
import { type Forward, type Region, type RegionCall, recordForward } from './region-call';
import { HeldInputs, SecondForward } from './second-forward';
import { Sieve } from './sieve';

/**
 * Runs a region. Inside `gradients`, it stores its inputs and the results of chosen kernels; elsewhere, it only runs
 * forward. `forward` must compute the same both times. Source: torch.utils.checkpoint, use_reentrant=False.
 *
 * [Note: checkpointed regions] The first forward runs on a recording with a sieve, which saves no operations; it only
 * finds the tensors on which the region depends. In backward, forward runs again on an inner recording, and backward runs
 * through this recording at once. It adds to the gradients so far, so sums are added in the same order as without
 * regions, and gradients are equal to the bit. Between the two forwards, an enclosing unit may free its parameters and
 * gather them into other tensors, so gradients are assigned by the parameter's index in its unit. A unit inside the region
 * runs its hooks again with the phase 'recompute'. A region inside a region has no effect in the outer region's first
 * forward. Throws: ENGINE inside tf.grads; in backward, if the second forward differs from the first.
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
    const value = recordForward(tape, forward, inputs);
    results?.settle(value);
    if (tape.flows(value)) {
      outer.addUnit(regionNode({ engine, region, outer, forward, inputs, tag }, tape, sieve, value));
      // The node owns the stored tensors now.
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
