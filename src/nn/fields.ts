/**
 * An object that learns of every field that is set on it, also by the class fields of a subclass.
 *
 * [Note: fields register] Class fields of a subclass are set after the constructors above it have run, so a base class that
 * wants to know of them has no later moment of its own. Hence the object is a proxy from the beginning: what
 * `torch.nn.Module.__setattr__` sees in Python, its `defineProperty` sees here, at once and in order. Private `#fields` are
 * no properties: nobody outside of the class sees them.
 */
export abstract class NoticesFields {
  constructor() {
    const noticed: this = new Proxy(this, {
      defineProperty(target, key, descriptor) {
        if (typeof key === 'string') noticed.fieldChanged(key, descriptor.value);
        return Reflect.defineProperty(target, key, descriptor);
      },
      deleteProperty(target, key) {
        if (typeof key === 'string') noticed.fieldChanged(key, undefined);
        return Reflect.deleteProperty(target, key);
      },
    });
    // biome-ignore lint/correctness/noConstructorReturn: subclasses' fields are to be set on the proxy.
    return noticed;
  }

  /** Is called before a field has its new value. */
  protected abstract fieldChanged(name: string, value: unknown): void;
}
