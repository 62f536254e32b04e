import { tensorsIn } from '../../core';
import type * as tf from '../../core/tf';
import { currentDraws } from '../backend/current-engine';
import type { Engine } from '../backend/engine';
import { KeptResults } from './kept-results';
import { leafOf } from './leaves';
import { currentRecording, noteRead, type RecordedNode, Recording, seedsOf } from './recording';
import { type Forward, type Region, type RegionCall, recordForward } from './region-call';
import { HeldInputs, resultOf, SecondForward } from './second-forward';
import { Sieve } from './sieve';

/**
 * Runs a region. Inside `gradients`, the region stores its inputs and the results of chosen kernels; elsewhere, it only runs
 * forward. `forward` must compute the same values in both calls. Source: torch.utils.checkpoint, use_reentrant=False.
 *
 * [Note: checkpointed regions] The first forward runs on a recording with a sieve. This recording saves no operations; it only
 * finds the tensors on which the region depends. In backward, forward runs again on an inner recording, and backward runs
 * through this recording directly afterwards. Backward adds to the gradients so far, so sums are added in the same order as
 * without regions, and gradients are equal to the bit. Between the two forwards, an enclosing unit may free its parameters and
 * gather them into other tensors, so gradients are assigned by the parameter's index in its unit. A unit inside the region
 * runs its hooks again with the phase 'recompute'. A region inside a region has no effect in the outer region's first forward.
 * Throws: ENGINE inside tf.grads, and in backward if the second forward differs from the first.
 */
export function runRegion<Inputs extends readonly unknown[], Result>(
  engine: Engine,
  region: Region,
  forward: Forward<Inputs, Result>,
  inputs: Inputs,
): Result {
  const outer = currentRecording(`The checkpointed region '${region.module}'`);
  if (outer === null || outer.sieve !== null) return forward(...inputs);
  const tag = { ...engine.currentTag, cause: 'temp', module: region.module } as const;
  const results = region.keepResultsOf === undefined ? null : new KeptResults(engine, region.keepResultsOf);
  const sieve = new Sieve(results, region.meter ?? null);
  const tape = new Recording(engine, outer, outer.owners, null, sieve);
  if (results !== null) tape.unfinished.add(results);
  const draws = { ...currentDraws() };
  try {
    const result = recordForward(tape, forward, inputs);
    const values = tensorsIn(result);
    results?.settle(values);
    if (values.some((value) => tape.flows(value))) {
      const again = forward as unknown as Forward; // it is called with inputs of the same types
      const call = { engine, region, outer, forward: again, inputs, tag, draws };
      outer.addUnit(regionNode(call, tape, sieve, values));
      // The node owns the stored tensors now.
      tape.unfinished.clear();
    }
    return result;
  } finally {
    tape.release();
  }
}

function regionNode(
  call: RegionCall,
  tape: Recording,
  { surroundings, results }: Sieve,
  values: readonly tf.Tensor[],
): RecordedNode {
  const { engine, region, outer, inputs } = call;
  const held = new HeldInputs(call, results);
  tape.unfinished.add(held);
  held.hold(surroundings);
  const flowing = tensorsIn(inputs).filter((input) => outer.flows(input));
  const sources = [...flowing.map(({ id }) => id), ...tape.captured.keys()];
  const first = { sources, results: values.map((value) => resultOf(engine, tape, value)) };
  const second = new SecondForward(call, held, first);
  const outputs = values.filter((value) => tape.flows(value));
  const node: RecordedNode = {
    id: outputs[0]?.id ?? 0,
    kernelName: `region ${region.module}`,
    inputs: {},
    sources,
    outputs,
    saved: [],
    units: [...tape.units],
    release: () => second.release(),
    // An output without a gradient has null in `dys`, but tfjs's types do not say so.
    resume: (dys, gradients) => second.resume(seedsOf(outputs, dys), gradients),
  };
  // The second forward reads all parameters again, so none may change before it.
  const captured = [...tape.captured.values()].flatMap((tensor) => leafOf(tensor) ?? []);
  for (const leaf of new Set([...captured, ...tape.siftedLeaves])) noteRead(node, leaf);
  return node;
}
