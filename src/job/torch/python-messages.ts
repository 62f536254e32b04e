import type { FromRank, ToRank } from '../control/messages';
import type { Payload } from './frames';

/** A message in the form that Python ranks get. */
interface PythonMessage {
  readonly json: unknown;
  readonly bytes?: Uint8Array;
}

/** Returns the form of a message that Python reads: JSON, and the values of batches as bytes. */
export function toPython(message: ToRank): PythonMessage {
  if (message.type !== 'batches') return { json: message };
  const { tensors, ...made } = message.made;
  const parts = tensors.map(({ values }) => Buffer.from(values.buffer, values.byteOffset, values.byteLength));
  const described = tensors.map(({ shape, values }) => ({
    shape,
    dtype: values instanceof Int32Array ? 'int32' : 'float32',
  }));
  return {
    json: { type: 'batches', id: message.id, ...made, tensors: described },
    bytes: Buffer.concat(parts),
  };
}

/**
 * Returns a message of a Python rank. The writer knew the job's key, so the message is from our own program and has the
 * fields of its type.
 */
export function fromPython({ json }: Payload): FromRank {
  const message = json as { readonly type: string; readonly id: number };
  if (message.type === 'need') {
    const { type: _, id, ...need } = json as FromRank & { type: 'need' } & Record<string, unknown>;
    return { type: 'need', id, need } as unknown as FromRank; // `json` has the request's fields beside `id`
  }
  if (message.type !== 'step') return json as FromRank;
  const { step, ...rest } = json as FromRank & { type: 'step' };
  const { loss, gradNorm } = step.result;
  const result = { ...step.result, loss: Number(loss), gradNorm: Number(gradNorm) };
  const record = step.record && {
    ...step.record,
    loss: step.record.loss === null ? null : Number(step.record.loss),
  };
  return { ...rest, step: { result, record } };
}
