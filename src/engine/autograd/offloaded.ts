import { tensorsIn } from '../../core';
import type * as tf from '../../core/tf';
import type { Engine } from '../backend/engine';
import { HostStash } from './host-stash';
import { currentRecording, type RecordedNode, Recording } from './recording';
import { type Forward, recordForward } from './region-call';
import { backward } from './tape';

/**
 * Runs a part of a model, and stores its saved activations on the host from the end of its forward to the start of its
 * backward. Outside of `gradients`, this function only runs forward. Source: FairScale's and torch's offload_wrapper
 * (save_on_cpu).
 * Throws: ENGINE inside tf.grads.
 */
export function runOffloaded<Inputs extends readonly unknown[], Result>(
  engine: Engine,
  module: string,
  forward: Forward<Inputs, Result>,
  inputs: Inputs,
): Result {
  const outer = currentRecording(`The offloaded module '${module}'`);
  if (outer === null || outer.sieve !== null) return forward(...inputs);
  const tape = new Recording(engine, outer, outer.owners, null);
  const flowing = tensorsIn(inputs).filter((input) => outer.flows(input));
  const result = recordForward(tape, forward, inputs, flowing);
  const outputs = tensorsIn(result).filter((value) => tape.flows(value));
  if (outputs.length === 0) {
    tape.release();
    return result;
  }
  const stash = new HostStash(engine);
  outer.addUnit({
    id: outputs[0]?.id ?? 0,
    kernelName: `offloaded ${module}`,
    inputs: {},
    sources: [...flowing.map(({ id }) => id), ...tape.captured.keys()],
    outputs,
    saved: [],
    inner: tape,
    release() {
      tape.release();
      stash.dispose();
    },
    resume(_, gradients) {
      stash.fetch();
      backward(engine, tape, gradients);
    },
  });
  stash.put(savedIn(tape));
  return result;
}

/** Returns the lists of saved tensors of all operations, including operations inside units. */
function savedIn(tape: Recording): tf.Tensor[][] {
  const lists: tf.Tensor[][] = [];
  tape.forEach(({ saved, inner }: RecordedNode) => {
    if (saved !== undefined) lists.push(saved);
    if (inner !== undefined) lists.push(...savedIn(inner));
  });
  return lists;
}
