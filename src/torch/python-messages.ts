import type { FromRank, RankOutcome, ToRank } from '../launch';
import type { Payload } from './frames';
import { decodeValue } from './value-codec';

/** A message in the form that Python ranks get. */
interface PythonMessage {
  readonly json: unknown;
  readonly bytes?: Uint8Array;
}

/** Returns the form of a message that Python reads: JSON, and the values of batches and variables as bytes. */
export function toPython(message: ToRank): PythonMessage {
  if (message.type === 'work' && 'coded' in message.work) {
    const { coded, ...work } = message.work;
    return { json: { ...message, work }, bytes: coded ?? Buffer.alloc(0) };
  }
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
export function fromPython({ json, bytes }: Payload): FromRank {
  const message = json as FromRank;
  if (message.type === 'need') {
    const { type: _, id, ...need } = json as FromRank & { type: 'need' } & Record<string, unknown>;
    return { type: 'need', id, need } as unknown as FromRank; // `json` has the request's fields beside `id`
  }
  if (message.type === 'ended' && 'isCoded' in message.outcome) {
    return { ...message, outcome: decoded(bytes) };
  }
  if (message.type !== 'step') return message;
  const { step, ...rest } = message;
  const { loss, gradNorm } = step.result;
  const result = { ...step.result, loss: Number(loss), gradNorm: Number(gradNorm) };
  const record = step.record && {
    ...step.record,
    loss: step.record.loss === null ? null : Number(step.record.loss),
  };
  return { ...rest, step: { result, record } };
}

/** Returns the outcome of work whose value is in some bytes. An error, as of memory, must not end the launcher. */
function decoded(bytes: Buffer): RankOutcome {
  try {
    return { ok: true, value: decodeValue(bytes) };
  } catch (error) {
    const evalue = `the value of ${bytes.length} bytes cannot be read: ${String(error)}`;
    return { ok: false, error: { code: 'INTERNAL', ename: 'ValueNotRead', evalue, traceback: [evalue] } };
  }
}
