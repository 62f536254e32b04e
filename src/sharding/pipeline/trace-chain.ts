import * as tf from '../../core/tf';
import type { Module } from '../../nn';

/** A call of a part during tracing. */
interface Call {
  readonly part: Module;
  readonly inputs: readonly unknown[];
  readonly output: tf.Tensor;
}

/**
 * Finds the order in which a model's forward applies its parts. Forward runs on stand-ins: each part returns a new scalar and
 * computes nothing, so the values of parameters are not made. Returns the parts in order, or the reason why the model does not
 * apply its parts one after another.
 * Source: torch.fx's symbolic tracing.
 */
export function traceChain(model: Module, parts: readonly Module[]): readonly Module[] | string {
  const calls: Call[] = [];
  let isTracing = true;
  for (const part of parts) {
    part.wrap((inputs, next) => {
      if (!isTracing) return next(...inputs);
      const output = tf.scalar(0);
      calls.push({ part, inputs, output });
      return output;
    });
  }
  let chainOrReason: readonly Module[] | string = [];
  try {
    tf.tidy(() => {
      const input = tf.scalar(0);
      chainOrReason = chainOf(calls, parts, input, model.forward(input));
    });
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return `forward fails (${text}) when its modules return stand-ins for their outputs, so it computes something itself`;
  } finally {
    isTracing = false;
  }
  return chainOrReason;
}

function chainOf(
  calls: readonly Call[],
  parts: readonly Module[],
  input: tf.Tensor,
  result: unknown,
): readonly Module[] | string {
  let before: { readonly output: tf.Tensor; readonly name: string } = { output: input, name: 'its input' };
  for (const { part, inputs, output } of calls) {
    const name = `"${part.path}"`;
    if (inputs.length !== 1)
      return `${name} gets ${inputs.length} inputs, but a stage passes on only one tensor`;
    if (inputs[0] !== before.output) {
      const earlier = calls.find((call) => call.output === inputs[0]);
      const from = inputs[0] === input ? 'the input of the model' : `the output of "${earlier?.part.path}"`;
      const reads =
        inputs[0] === input || earlier !== undefined
          ? `${name} reads ${from}, which stages after ${before.name} do not have`
          : `forward computes something itself between ${before.name} and ${name}`;
      return reads;
    }
    before = { output, name };
  }
  const counts = new Map(parts.map((part) => [part, calls.filter((call) => call.part === part).length]));
  for (const [part, count] of counts) {
    if (count !== 1)
      return `forward ${count === 0 ? `does not apply "${part.path}"` : `applies "${part.path}" ${count} times, not once`}`;
  }
  if (result !== before.output) return `forward computes something itself after ${before.name}`;
  return calls.map(({ part }) => part);
}
