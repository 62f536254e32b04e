import { compareCompiled } from './compile-cases';

/** The default backend, which compiles C++ on CPUs. */
compareCompiled(true);
