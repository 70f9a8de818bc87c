cp "$TESTDATA/../../../runtime/httptool/openapi/testdata/pets.json" shop.yaml
