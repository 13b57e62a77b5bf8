package mesh

import (
	"encoding/json"
	"fmt"

	"istio.io/istio/pilot/pkg/config/kube/crd"
)

// Validate says why Istio's webhook would refuse an object; "" if it would
// not.
func Validate(object any) (problem string, err error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	o, err := newObject("", raw)
	if err != nil {
		return "", err
	}
	schema, ok := istioSchema(o)
	if !ok {
		return "", nil
	}
	kind := &crd.IstioKind{}
	if err := json.Unmarshal(o.JSON, kind); err != nil {
		return "", err
	}
	cfg, err := crd.ConvertObject(schema, kind, domain)
	if err != nil {
		return fmt.Sprintf("%s: %v", o, err), nil
	}
	if _, err := schema.ValidateConfig(*cfg); err != nil {
		return fmt.Sprintf("%s: %v", o, err), nil
	}
	return "", nil
}
