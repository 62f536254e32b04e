/**
 * An object that notices every field that is set on it, also class fields of a subclass.
 *
 * [Note: fields register] Class fields of a subclass are set after the constructors above it have run, so a base class
 * has no later moment to register them. Hence the object is a proxy from the beginning: its `defineProperty` sees here
 * what `torch.nn.Module.__setattr__` sees in Python, at once and in order. Private `#fields` are not properties, so the
 * proxy does not see them.
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
    // biome-ignore lint/correctness/noConstructorReturn: subclasses' fields must be set on the proxy.
    return noticed;
  }

  /** Called before a field gets its new value. */
  protected abstract fieldChanged(name: string, value: unknown): void;
}
