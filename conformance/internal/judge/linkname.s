// Lets the compiler take a function without a body (serviceCluster).
