import type { Runtime, Session } from 'node:inspector';
import { globalSlot } from '../core/global-slot';
import type { CellPosition } from './stack-mapper';

/** How V8 ended a cell. */
export type Evaluated =
  | { readonly kind: 'value'; readonly value: unknown }
  | { readonly kind: 'thrown'; readonly thrown: unknown; readonly position: CellPosition | undefined }
  | { readonly kind: 'terminated' };

const OBJECT_GROUP = 'cell';

/** Through it a value comes back from the inspector as itself. */
const HANDOVER = globalSlot<(value: unknown) => void>('shardlab.handover');

/** V8's REPL mode over an in-process inspector session, with values as real objects. */
export class Repl {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Runs code; may never settle when a termination hits it after an `await`. */
  evaluate(code: string, name: string): Promise<Evaluated> {
    const expression = `${code}\n//# sourceURL=${name}`;
    // The typings lack replMode.
    const parameters = {
      expression,
      replMode: true,
      objectGroup: OBJECT_GROUP,
    } as Runtime.EvaluateParameterType;
    return new Promise((settle) => {
      this.#session.post('Runtime.evaluate', parameters, (failure, reply) => {
        // A well-formed request fails only if its code is terminated.
        settle(failure === null && reply !== undefined ? this.#read(reply) : { kind: 'terminated' });
      });
    });
  }

  /** Releases the inspector's objects of ended cells. */
  release(): void {
    this.#session.post('Runtime.releaseObjectGroup', { objectGroup: OBJECT_GROUP });
  }

  #read(reply: Runtime.EvaluateReturnType): Evaluated {
    const { exceptionDetails, result } = reply;
    if (exceptionDetails === undefined) return { kind: 'value', value: this.#realValue(result) };
    const thrown =
      exceptionDetails.exception === undefined ? undefined : this.#realValue(exceptionDetails.exception);
    // Only a parse error has its place here. For a thrown value, this is the place of the top frame, which is in Node's
    // own code after an await; errors carry their place in their stack.
    const { lineNumber, columnNumber, stackTrace } = exceptionDetails;
    const isPlaced = stackTrace === undefined && lineNumber + columnNumber > 0;
    const position = isPlaced ? { line: lineNumber + 1, column: columnNumber + 1 } : undefined;
    return { kind: 'thrown', thrown, position };
  }

  #realValue(remote: Runtime.RemoteObject): unknown {
    if (remote.objectId !== undefined) return this.#handOver(remote.objectId);
    const { unserializableValue } = remote;
    if (unserializableValue === undefined) return remote.value;
    if (remote.type === 'bigint') return BigInt(unserializableValue.slice(0, -1));
    return Number(unserializableValue);
  }

  #handOver(objectId: string): unknown {
    let received: unknown;
    HANDOVER.value = (value) => {
      received = value;
    };
    // The call is made before `post` returns.
    this.#session.post('Runtime.callFunctionOn', {
      objectId,
      functionDeclaration: "function(value) { globalThis[Symbol.for('shardlab.handover')](value); }",
      arguments: [{ objectId }],
      silent: true,
    });
    HANDOVER.value = undefined;
    return received;
  }
}
