/**
 * An object that notices when it is called like a function, and when a field is set or deleted. The object also notices the
 * class fields of a subclass.
 *
 * [Note: fields register] Class fields of a subclass are set after the base class's constructor has run, so this constructor
 * cannot register them. Instead, the constructor returns a proxy whose `defineProperty` is called for each field, in order, as
 * `torch.nn.Module.__setattr__` is in Python. The proxy's target is a function, so that `model(x)` works. Private `#fields` are
 * not properties, so the proxy does not see these fields.
 */
export abstract class NoticesFields {
  constructor() {
    const call = (...inputs: unknown[]): unknown => noticed.called(inputs);
    Reflect.deleteProperty(call, 'name');
    Reflect.deleteProperty(call, 'length');
    Object.setPrototypeOf(call, new.target.prototype);
    // The function has the prototype of the class, so it has the methods of `this`.
    const noticed: this = new Proxy(call as unknown as this, {
      defineProperty(target, key, descriptor) {
        if (typeof key === 'string') noticed.fieldChanged(key, descriptor.value);
        return Reflect.defineProperty(target, key, descriptor);
      },
      deleteProperty(target, key) {
        if (typeof key === 'string') noticed.fieldChanged(key, undefined);
        return Reflect.deleteProperty(target, key);
      },
    });
    // biome-ignore lint/correctness/noConstructorReturn: subclasses' fields must be set on the proxy.
    return noticed;
  }

  /** Runs when the object is called like a function. */
  protected abstract called(inputs: readonly unknown[]): unknown;

  /** Runs before a field gets its new value (undefined if the field is deleted). */
  protected abstract fieldChanged(name: string, value: unknown): void;
}
