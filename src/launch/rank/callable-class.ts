/** A class that can be called with or without `new`, because users copy Python code, which has no `new`. */
export interface CallableClass<Arguments extends readonly unknown[], Made> {
  (...args: Arguments): Made;
  new (...args: Arguments): Made;
}

/** Makes a function that can be called with and without `new`. */
export function callableClass<Arguments extends readonly unknown[], Made extends object>(
  make: (...args: Arguments) => Made,
): CallableClass<Arguments, Made> {
  function construct(...args: Arguments): Made {
    return make(...args);
  }
  // If a function returns an object, `new` returns this object.
  return construct as unknown as CallableClass<Arguments, Made>;
}
