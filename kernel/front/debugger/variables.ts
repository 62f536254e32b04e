import type { Runtime } from 'node:inspector';
import { ConfigError } from '../../../src/core';
import type { DebugThread } from './thread';

/** A variable in the form of the Debug Adapter Protocol. */
export interface Variable {
  readonly name: string;
  readonly value: string;
  readonly type: string;
  readonly evaluateName: string;
  /** The number under which the variable's members are read; 0: it has none. */
  readonly variablesReference: number;
}

/** Variables in an object of V8; only those with these names, if there are names. */
export interface Scope {
  readonly objectId: string;
  readonly names?: ReadonlySet<string>;
}

/** Variables that were not read yet: those of scopes, the innermost first, or the members of an object. */
type Reference =
  | { readonly kind: 'scopes'; readonly thread: DebugThread; readonly scopes: readonly Scope[] }
  | { readonly kind: 'object'; readonly thread: DebugThread; readonly objectId: string };

const MOST_CHARACTERS = 200;

/** The variables of stopped threads, by the numbers under which a client reads them. */
export class Variables {
  readonly #references = new Map<number, Reference>();
  #last = 0;

  /** Returns the number of these variables. */
  refer(reference: Reference): number {
    this.#references.set(++this.#last, reference);
    return this.#last;
  }

  /** Forgets the variables of a thread that continues. */
  forget(thread: DebugThread): void {
    for (const [number, reference] of this.#references)
      if (reference.thread === thread) this.#references.delete(number);
  }

  /** Reads variables. Throws: CONFIG if the thread has continued since the client got the number. */
  async read(number: number): Promise<Variable[]> {
    const reference = this.#references.get(number);
    if (reference === undefined)
      throw new ConfigError(`there are no variables with the number ${number}: the code has continued since`);
    const { thread } = reference;
    if (reference.kind === 'object') return this.show(thread, await thread.members(reference.objectId));
    const properties = new Map<string, Runtime.PropertyDescriptor>();
    for (const { objectId, names } of reference.scopes) {
      const reply = await thread.call('Runtime.getProperties', { objectId, ownProperties: true });
      for (const property of (reply as Runtime.GetPropertiesReturnType).result) {
        const isShown = names === undefined || names.has(property.name);
        if (isShown && !properties.has(property.name)) properties.set(property.name, property);
      }
    }
    return this.show(thread, [...properties.values()]);
  }

  /** Shows V8's properties as variables. */
  async show(thread: DebugThread, properties: readonly Runtime.PropertyDescriptor[]): Promise<Variable[]> {
    const shown = properties.filter(({ name, symbol }) => symbol === undefined && name !== '__proto__');
    const objectIds = shown.flatMap(({ value }) => idOf(value) ?? []);
    const texts = new Map((await thread.describe(objectIds)).map((text, i) => [objectIds[i], text] as const));
    return shown.map(({ name, value }) => {
      const objectId = idOf(value);
      const text = texts.get(objectId) ?? { text: primitiveText(value), type: value?.type ?? '' };
      const written = name.replace(/\$cell$/, '');
      return {
        name: written,
        evaluateName: written,
        value: text.text,
        type: text.type,
        variablesReference: objectId === undefined ? 0 : this.refer({ kind: 'object', thread, objectId }),
      };
    });
  }

  /** Shows one value of V8. */
  async showValue(thread: DebugThread, value: Runtime.RemoteObject): Promise<Variable> {
    const [variable] = await this.show(thread, [{ name: '', value, configurable: false, enumerable: true }]);
    return variable ?? { name: '', evaluateName: '', value: '', type: '', variablesReference: 0 };
  }
}

/** V8's id of an object; undefined for functions and for values that are no objects. */
function idOf(value: Runtime.RemoteObject | undefined): string | undefined {
  return value?.type === 'object' ? value.objectId : undefined;
}

/** Returns the text of a value that is no object, as code that makes it. */
export function primitiveText(value: Runtime.RemoteObject | undefined): string {
  if (value === undefined) return '(a getter)';
  const { type, unserializableValue, description } = value;
  const text =
    type === 'string'
      ? JSON.stringify(value.value)
      : (unserializableValue ?? description ?? String(value.value));
  const line = text.split('\n')[0] ?? '';
  return line.length > MOST_CHARACTERS ? `${line.slice(0, MOST_CHARACTERS)}…` : line;
}
